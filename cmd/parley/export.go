package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"parley/cmd/parley/internal/store"
	"parley/conversation"
	"parley/gateway/protocol"
)

type exportCmd struct {
	File    string `arg:"" optional:"" placeholder:"FILE" help:"File to make; it must not exist (default: standard output). What is exported is in --data: a data directory that no server uses, or a backup."`
	Session string `placeholder:"ID" help:"This session and those below it only."`
	Tenant  string `placeholder:"TENANT" help:"The sessions of this tenant only."`
}

// export writes the store as JSON Lines for people and scripts.
func (m *Main) export(ctx context.Context) (err error) {
	db, err := store.Read(m.Config.Data)
	if store.InUse(err) {
		return fmt.Errorf("%w; make a backup and export that with --data", m.explain(err))
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	to := m.Stdout
	if name := m.line.Export.File; name != "" {
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		to = f
	}
	out := bufio.NewWriterSize(to, 1<<16)
	if err := m.exportTo(ctx, out, db); err != nil {
		return fmt.Errorf("the export is not whole: %w", errors.Join(err, out.Flush()))
	}
	return out.Flush()
}

func (m *Main) exportTo(ctx context.Context, out *bufio.Writer, db store.Reading) error {
	cmd, lines := m.line.Export, json.NewEncoder(out)
	err := lines.Encode(struct {
		Type    string             `json:"type"`
		Version int                `json:"version"`
		Log     conversation.LogID `json:"log"`
		Program string             `json:"program"`
		Time    time.Time          `json:"time"`
	}{"store", 1, db.LogID(), version(), time.Now().UTC().Truncate(time.Millisecond)})
	if err != nil {
		return err
	}
	found := false
	for s, err := range db.Everything(ctx) {
		if err != nil {
			return err
		}
		id := string(s.Key.Session)
		if cmd.Tenant != "" && string(s.Key.Tenant) != cmd.Tenant || cmd.Session != "" && id != cmd.Session && !strings.HasPrefix(id, cmd.Session+"/") {
			continue
		}
		found = true
		if err := exportSession(ctx, out, lines, db, s); err != nil {
			return fmt.Errorf("session %s: %w", s.Key, err)
		}
	}
	if !found && cmd.Session != "" {
		return fmt.Errorf("there is no session %s", cmd.Session)
	}
	return nil
}

// exportSession writes a session's line and its events, each as clients get it.
func exportSession(ctx context.Context, out io.Writer, lines *json.Encoder, db store.Reading, s conversation.Summary) error {
	err := lines.Encode(struct {
		Type      string                 `json:"type"`
		Tenant    conversation.TenantID  `json:"tenant"`
		Session   conversation.SessionID `json:"session"`
		Title     string                 `json:"title"`
		Agent     conversation.AgentName `json:"agent"`
		Owner     conversation.UserID    `json:"owner"`
		Access    string                 `json:"access"`
		Closed    bool                   `json:"closed"`
		CreatedAt time.Time              `json:"created_at"`
		Activity  time.Time              `json:"activity"`
		Head      conversation.Seq       `json:"head"`
	}{"session", s.Key.Tenant, s.Key.Session, s.Title, s.Agent, s.Owner, s.Access.String(), s.Closed, s.CreatedAt, s.Activity, s.Last})
	if err != nil {
		return err
	}
	var line []byte
	for record, err := range db.Records(ctx, s.Key, conversation.Range{}) {
		if err != nil {
			return err
		}
		for i := range record.Events {
			line = append(protocol.AppendEvent(line[:0], s.Key.Session, &record.Events[i], false), '\n')
			if _, err := out.Write(line); err != nil {
				return err
			}
		}
	}
	return nil
}
