package service

import (
	"context"
	"time"

	"parley/conversation"
)

// Backup makes a copy of the store in a directory of the server's machine. Errors
// are *conversation.Error where a person may see them. nil = there is no such thing.
type Backup func(ctx context.Context, dest string) (BackupMade, error)

// BackupMade is what a backup holds.
type BackupMade struct {
	Dest     string             `json:"dest"`
	Log      conversation.LogID `json:"log"`
	Layout   uint32             `json:"layout"`
	Sessions int64              `json:"sessions"`
	Records  int64              `json:"records"`
	Bytes    int64              `json:"bytes"`
	Seconds  float64            `json:"seconds"`
}

// Job is work of a request that must end when the server goes away: a Connection
// whose end is that of a context.
type Job struct{ Cancel context.CancelFunc }

// GoAway, Close and ForceClose implement Connection.
func (j *Job) GoAway(int, string, time.Duration) { j.Cancel() }

// Close implements Connection.
func (j *Job) Close() { j.Cancel() }

// ForceClose implements Connection.
func (j *Job) ForceClose() { j.Cancel() }
