package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"parley/cmd/parley/internal/backups"
	"parley/cmd/parley/internal/store"
	"parley/conversation"
	"parley/metrics"
)

// keepBackups makes backups on the schedule of the configuration. stop gives up the one that
// is being made; after it the returned channel is closed soon.
func (m *Main) keepBackups(ctx context.Context, db store.Store, made *metrics.Backups, log *slog.Logger) (stop func(), ended <-chan struct{}) {
	ctx, stop = context.WithCancel(ctx)
	over := make(chan struct{})
	schedule := backups.Schedule{Settings: m.Config.Backup, Deps: backups.Deps{
		Log: db.LogID(), Now: time.Now, Logger: log, Metrics: made,
		Make: func(ctx context.Context, dest string) (store.BackupInfo, error) {
			return db.Backup(ctx, dest, version())
		},
	}}
	go func() { // ends with stop
		defer close(over)
		schedule.Run(ctx)
	}()
	return stop, over
}

// checkBackups looks at the directory of the schedule as a start would. Whose backups those
// are that count the store says; where it cannot be read all of them do, and the lines say so.
func (m *Main) checkBackups(say func(what string, err error, fine string), note func(what, text string)) {
	s := m.Config.Backup
	if !s.On() {
		return
	}
	log, from := m.logOfData(), ""
	if log == "" {
		from = " of any store"
	}
	found, err := backups.Look(s, log, time.Now())
	fine := fmt.Sprintf("every %s in %s, %d of them there", s.Every, s.Dir, found.Kept)
	if from != "" {
		fine += "," + from
	}
	if found.Free > 0 {
		fine += fmt.Sprintf(", %d MiB free", found.Free>>20)
	}
	say("backups", err, fine)
	switch age := time.Since(found.Last); {
	case err != nil:
	case found.Kept == 0:
		note("backups", "there is none yet; the start makes one")
	case found.Last.IsZero():
		note("backups", fmt.Sprintf("all are of a time to come: was the date changed? The next one is made %s after the start", s.Every))
	case age > s.Every+s.Every/2:
		note("backups", fmt.Sprintf("the last good one%s is of %s, %s ago; the start makes one", from, found.Last.Format(time.RFC3339), age.Round(time.Second)))
	default:
		note("backups", fmt.Sprintf("the last good one%s is of %s, with %d MiB", from, found.Last.Format(time.RFC3339), found.Bytes>>20))
	}
	if err == nil && found.Ahead > 0 && !found.Last.IsZero() {
		note("backups", fmt.Sprintf("%d of them are of a time to come and count as older than all others: was the date changed?", found.Ahead))
	}
	if err == nil && found.Free > 0 && found.Free < uint64(found.Bytes) {
		note("backups", fmt.Sprintf("there are %d MiB free and the last backup has %d: on another disk than the data directory the next one may not find room", found.Free>>20, found.Bytes>>20))
	}
}

// logOfData is the log id of the store in --data; "" = there is none, a server has it, or it
// cannot be read, which checkData says.
func (m *Main) logOfData() conversation.LogID {
	db, err := store.Read(m.Config.Data)
	if err != nil {
		return ""
	}
	defer func() { _ = db.Close() }()
	return db.LogID()
}
