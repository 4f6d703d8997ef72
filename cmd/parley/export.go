package main

import (
	"bufio"
	"bytes"
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
	Resume  bool   `help:"Go on with the FILE of an export that was interrupted, with the same --session and --tenant."`
	Session string `placeholder:"ID" help:"This session and those below it only."`
	Tenant  string `placeholder:"TENANT" help:"The sessions of this tenant only."`
}

// export writes the store as JSON Lines for people and scripts.
func (m *Main) export(ctx context.Context) (err error) {
	name, resume := m.line.Export.File, m.line.Export.Resume
	if resume && name == "" {
		return &UsageError{"--resume goes on with a FILE: name it"}
	}
	db, err := store.Read(m.Config.Data)
	if store.InUse(err) {
		return fmt.Errorf("%w; make a backup and export that with --data", m.explain(err))
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	e := exporting{exportCmd: m.line.Export, db: db, out: bufio.NewWriterSize(m.Stdout, 1<<16), hint: ""}
	if name != "" {
		how := os.O_RDWR | os.O_CREATE | os.O_EXCL
		if resume {
			how = os.O_RDWR
		}
		f, err := os.OpenFile(name, how, 0o600)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		e.file, e.out, e.hint = f, bufio.NewWriterSize(f, 1<<16), "; the same command with --resume goes on"
		if resume {
			e.have = &earlier{r: bufio.NewReaderSize(f, 1<<16)}
		}
	}
	if err := e.all(ctx); err != nil {
		var other *differs
		if errors.As(err, &other) {
			return fmt.Errorf("%s was not changed: %w", name, err)
		}
		return fmt.Errorf("the export is not whole: %w%s", errors.Join(err, e.out.Flush()), e.hint)
	}
	err = e.out.Flush()
	if err == nil && e.file != nil {
		err = e.file.Sync()
	}
	if err == nil && resume {
		fmt.Fprintf(m.Stderr, "%s is whole: %d sessions, %d events, %d of them were there before\n", name, e.sessions, e.events, e.found)
	}
	return err
}

// differs says that a file to go on with is not of this export.
type differs struct{ what string }

func (d *differs) Error() string { return d.what }

// exporting is an export on its way.
type exporting struct {
	exportCmd
	db   store.Reading
	out  *bufio.Writer
	file *os.File // nil = standard output
	hint string   // how to go on after a failure
	have *earlier // what an interrupted export has written; nil = nothing, or no more

	sessions, events, found int // found: events that were there before
}

type storeLine struct {
	Type    string             `json:"type"`
	Version int                `json:"version"`
	Log     conversation.LogID `json:"log"`
	Program string             `json:"program"`
	Time    time.Time          `json:"time"`
}

func (e *exporting) all(ctx context.Context) error {
	first := storeLine{"store", 1, e.db.LogID(), version(), time.Now().UTC().Truncate(time.Millisecond)}
	if err := e.begin(first); err != nil {
		return err
	}
	for s, err := range e.db.Everything(ctx) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		id := string(s.Key.Session)
		if e.Tenant != "" && string(s.Key.Tenant) != e.Tenant || e.Session != "" && id != e.Session && !strings.HasPrefix(id, e.Session+"/") {
			continue
		}
		e.sessions++
		if err := e.session(ctx, s); err != nil {
			return fmt.Errorf("session %s: %w", s.Key, err)
		}
	}
	if e.sessions == 0 && e.Session != "" {
		return fmt.Errorf("there is no session %s", e.Session)
	}
	err := e.line(struct {
		Type     string `json:"type"`
		Sessions int    `json:"sessions"`
		Events   int    `json:"events"`
	}{"end", e.sessions, e.events})
	if err != nil || e.have == nil {
		return err
	}
	if more := e.have.peek(); more != nil {
		return &differs{"it has more behind its end: " + short(more)}
	}
	return e.goOn()
}

// begin writes the first line, or compares it with the one that is there: its time stays.
func (e *exporting) begin(first storeLine) error {
	if e.have == nil {
		return e.line(first)
	}
	text, ok := e.have.next()
	if !ok {
		if len(e.have.torn) > 0 && !bytes.HasPrefix([]byte(`{"type":"store","version":`), e.have.torn[:min(len(e.have.torn), 26)]) {
			return &differs{"it does not begin as an export does"}
		}
		return errors.Join(e.goOn(), e.line(first))
	}
	var was storeLine
	if json.Unmarshal(text, &was) != nil || was.Type != "store" {
		return &differs{"it does not begin as an export does"}
	}
	was.Time = first.Time
	if was != first {
		return &differs{fmt.Sprintf("it is the export of the log %s by parley %s, and this one is of the log %s by %s: begin a new file", was.Log, was.Program, first.Log, first.Program)}
	}
	return nil
}

// line puts what is no event.
func (e *exporting) line(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = e.put(append(text, '\n'))
	return err
}

// put writes a whole line, or compares it with the one that is there.
func (e *exporting) put(text []byte) (there bool, err error) {
	if e.have != nil {
		at := e.have.at
		was, ok := e.have.next()
		if ok && !bytes.Equal(was, text) {
			return false, &differs{fmt.Sprintf("at byte %d it has %s where this store has %s: it was changed, the store was written to since, or the export was of something else; begin a new file", at, short(was), short(text))}
		}
		if ok {
			return true, nil
		}
		if err := e.goOn(); err != nil {
			return false, err
		}
	}
	_, err = e.out.Write(text)
	return false, err
}

func short(line []byte) string {
	line = bytes.TrimSpace(line)
	if len(line) > 120 {
		return string(line[:120]) + "…"
	}
	return string(line)
}

// goOn cuts the file behind its last whole line and writes on from there.
func (e *exporting) goOn() error {
	at := e.have.at
	e.have = nil
	if err := e.file.Truncate(at); err != nil {
		return err
	}
	_, err := e.file.Seek(at, io.SeekStart)
	return err
}

// session writes a session's line and its events, each as clients get it.
func (e *exporting) session(ctx context.Context, s conversation.Summary) error {
	err := e.line(struct {
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
	for record, err := range e.db.Records(ctx, s.Key, conversation.Range{}) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		for i := range record.Events {
			line = append(protocol.AppendEvent(line[:0], s.Key.Session, &record.Events[i], false), '\n')
			there, err := e.put(line)
			if err != nil {
				return err
			}
			if there {
				e.found++
			}
			e.events++
		}
	}
	return nil
}

// earlier reads what an interrupted export has written, line by line.
type earlier struct {
	r    *bufio.Reader
	at   int64  // behind the last line that was taken
	back []byte // the next line, if it was read already
	torn []byte // the rest behind the last whole line, once over
	over bool   // there is no whole line any more
}

// next takes the next whole line. One that is not JSON was never wholly on the disk, and so
// were all behind it.
func (h *earlier) next() ([]byte, bool) {
	line := h.peek()
	if line == nil {
		return nil, false
	}
	h.back = nil
	h.at += int64(len(line))
	return line, true
}

func (h *earlier) peek() []byte {
	if h.back != nil || h.over {
		return h.back
	}
	line, err := h.r.ReadBytes('\n')
	if err != nil || !json.Valid(line) {
		h.over, h.torn = true, line
		return nil
	}
	h.back = line
	return line
}
