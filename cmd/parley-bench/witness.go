package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fasthttp/websocket"
)

// A witness is a client with a session of its own. It keeps what it was told
// across all its connections, and what it was promised.
type witness struct {
	deeds
	mode    string // its session's
	session string
	addr    string
	texts   map[string]string // client_msg_id → text, of every message ever sent
	order   []string          // their ids in the order of sending
	acked   map[string]string // client_msg_id → message, "" where it was not told
	refused map[string]string // client_msg_id → why: it must not be in the log
	loose   map[string]bool   // messages that a crash may have kept us from seeing refused: accepted when sent again, they come later
	open    []*deed           // messages without an answer yet
	done    []*deed           // acknowledged messages, to be sent again
	changes []*deed           // acknowledged edits, withdrawals and moves
	seen    [][]byte          // seen[i] is the event with seq i+1, as it came first
	ledger  *ledger           // of seen
	counts  map[string]int    // of answers, by command
	skipped bool              // a message was refused for the time being: the order of sending does not bind any more
	wrong   error
}

func newWitness(i int, seed uint64) *witness {
	name := "w" + strconv.Itoa(i)
	return &witness{
		deeds: deeds{name: name, dice: rand.New(rand.NewPCG(seed, uint64(i)+2))},
		mode:  []string{"steer", "queue", "collect", "interrupt", "reject"}[i%5],
		texts: map[string]string{}, acked: map[string]string{}, refused: map[string]string{}, loose: map[string]bool{}, ledger: newLedger(), counts: map[string]int{},
	}
}

// broken is a promise that was not kept.
type broken struct{ what string }

func (b *broken) Error() string { return b.what }

func promise(format string, args ...any) error { return &broken{fmt.Sprintf(format, args...)} }

// live is one life of the server, from connect to crash. A lost connection is
// expected; anything else that is odd goes to w.wrong.
func (w *witness) live(addr string) {
	err := w.talk(addr, true, func(c *client) error {
		if err := w.again(c); err != nil {
			return err
		}
		for { // ends with the socket
			burst := []*deed{w.next(w.ledger, w.done)}
			for n := w.dice.IntN(3); len(burst) <= n && burst[0].kind != "reply"; {
				// A reply goes over another connection, and so alone: the order would not be known.
				if d := w.next(w.ledger, w.done); d.kind != "reply" {
					burst = append(burst, d)
				}
			}
			if err := w.perform(c, burst...); err != nil {
				return err
			}
			for range w.dice.IntN(15) {
				if !w.ledger.busy() {
					break // nothing would come
				}
				if err := w.read(c); err != nil {
					return err
				}
			}
		}
	})
	var closed *websocket.CloseError
	var bad *broken
	switch {
	case errors.As(err, &bad):
		w.wrong = bad
	case errors.As(err, &closed) && closed.Code >= 4500:
		w.wrong = err
	}
}

// talk connects, resumes, and goes on with then.
func (w *witness) talk(addr string, create bool, then func(*client) error) error {
	w.addr = addr
	c, err := dial(addr)
	if err != nil {
		return err
	}
	defer c.close()
	if create || w.session == "" {
		if err := w.create(c); err != nil {
			return err
		}
	}
	// Now and then some events are asked for again, to compare them.
	since := max(0, len(w.seen)-w.dice.IntN(20))
	id, err := c.write("follow", w.session, `{"since":`+strconv.Itoa(since)+`}`)
	if err != nil {
		return err
	}
	data, err := c.answer(id, nil)
	if err != nil {
		return err
	}
	var followed struct {
		Head    uint64
		Resumed bool
	}
	if err := json.Unmarshal(data, &followed); err != nil || !followed.Resumed {
		return promise("follow since %d was not resumed: %s", since, data)
	}
	if followed.Head < uint64(len(w.seen)) {
		return promise("the head is %d, and seq %d was seen", followed.Head, len(w.seen))
	}
	for {
		f, err := c.read()
		if err != nil {
			return err
		}
		if string(f.typ) == "synced" {
			break
		}
		if err := w.note(f); err != nil {
			return err
		}
	}
	return then(c)
}

// create makes the session, or finds it again.
func (w *witness) create(c *client) error {
	data, err := c.ask("create", "", `{"client_session_id":"`+w.name+`","policy":{"inbox.mode":"`+w.mode+`"}}`)
	if err != nil {
		return err
	}
	var created struct{ Session string }
	if err := json.Unmarshal(data, &created); err != nil {
		return promise("create's answer: %s", data)
	}
	if w.session != "" && w.session != created.Session {
		return promise("client_session_id %s is session %s now, it was %s", w.name, created.Session, w.session)
	}
	w.session = created.Session
	return nil
}

// again repeats what has no answer yet, with the same ids.
func (w *witness) again(c *client) error {
	open := w.open
	w.open = nil
	for i, d := range open {
		if err := w.perform(c, d); err != nil {
			w.open = append(w.open, open[i+1:]...)
			return err
		}
	}
	return nil
}

// read reads one frame that is not an answer.
func (w *witness) read(c *client) error {
	f, err := c.read()
	if err != nil {
		return err
	}
	if f.re != nil {
		return promise("an answer to nothing that was asked: %s", f.raw)
	}
	return w.note(f)
}

// perform gives commands, one behind the other without a wait, and waits for all
// their answers. What has none when the connection ends is kept for the next life.
func (w *witness) perform(c *client, all ...*deed) (err error) {
	waiting := map[string]*deed{}
	given := 0
	defer func() {
		for _, d := range all[:given] {
			if d.client != "" && !d.again && slices.ContainsFunc(sorted(waiting), func(o *deed) bool { return o == d }) {
				d.lost = true
				w.open = append(w.open, d)
				if d.mode == "reject" || d.mode == "" && w.mode == "reject" {
					w.loose[d.client] = true
				}
			}
		}
	}()
	for i, d := range all {
		if d.client != "" && w.texts[d.client] == "" {
			w.texts[d.client] = d.text
			w.order = append(w.order, d.client)
		}
		given = i + 1
		if d.kind == "reply" {
			waiting["http "+strconv.Itoa(i)] = d
			if err := w.reply(d); err != nil {
				return err
			}
			delete(waiting, "http "+strconv.Itoa(i))
			continue
		}
		id, err := c.write(d.kind, w.session, d.data)
		waiting[id] = d
		if err != nil {
			return err
		}
	}
	for len(waiting) > 0 {
		f, err := c.read()
		switch {
		case err != nil:
			return err
		case f.re == nil:
			if err := w.note(f); err != nil {
				return err
			}
			continue
		}
		d := waiting[string(f.re)]
		if d == nil {
			return promise("an answer to nothing that was asked: %s", f.raw)
		}
		delete(waiting, string(f.re))
		if err := w.answered(d, f); err != nil {
			return err
		}
	}
	return nil
}

func sorted(m map[string]*deed) []*deed {
	all := make([]*deed, 0, len(m))
	for _, d := range m {
		all = append(all, d)
	}
	return all
}

// answered takes an answer of the socket.
func (w *witness) answered(d *deed, f *frame) error {
	if string(f.typ) == "ok" {
		var data struct {
			Message   string
			Duplicate bool
		}
		if err := json.Unmarshal(f.data, &data); err != nil {
			return promise("%s was answered %s", d.kind, f.raw)
		}
		return w.accepted(d, data.Message, data.Duplicate)
	}
	r := &refusal{}
	if err := json.Unmarshal(f.err, r); err != nil {
		return promise("an unreadable error: %s", f.raw)
	}
	return w.refusal(d, r)
}

func (w *witness) accepted(d *deed, message string, duplicate bool) error {
	w.counts["ok "+d.kind]++
	if d.again || d.lost {
		w.counts["ok again"]++
	}
	switch d.kind {
	case "edit", "withdraw", "move":
		w.changes = append(w.changes, d)
		return nil
	case "cancel":
		return nil
	}
	if d.again {
		if known := w.acked[d.client]; !duplicate || known != message {
			return promise("%s was sent again and is %s (duplicate: %v), it was %s", d.client, message, duplicate, known)
		}
		return nil
	}
	if duplicate && !d.lost {
		return promise("%s is a duplicate, and was sent once", d.client)
	}
	w.acked[d.client] = message
	if message != "" {
		w.done = append(w.done, d)
	}
	return nil
}

// fine are the refusals that each command may meet.
var fine = map[string][]string{
	"send":     {"session_busy", "inbox_full"},
	"answer":   {"question_closed"},
	"reply":    {"task_not_awaiting", "bad_request"}, // another question of the task may be the newest by now, and wants yes or no
	"edit":     {"conflict"},
	"withdraw": {"conflict"},
	"move":     {"conflict"},
	"cancel":   {"not_found"},
}

func (w *witness) refusal(d *deed, r *refusal) error {
	w.counts["refused "+r.Code]++
	switch {
	case slices.Contains(fine[d.kind], r.Code) && !d.again:
		if d.client != "" {
			w.refused[d.client] = r.Code
		}
		return nil
	case r.Code == "overloaded" || r.Code == "unavailable" || r.Code == "timeout":
		if d.client != "" && !d.again {
			w.skipped, d.lost = true, true // a timeout may have been carried out
			w.open = append(w.open, d)
		}
		return nil
	}
	return promise("%s %s%s %q was refused: %v", d.kind, d.client, d.target, d.text, r)
}

// reply answers the task's question over HTTP.
func (w *witness) reply(d *deed) error {
	response, err := http.Post("http://"+w.addr+"/api/tasks/"+url.PathEscape(d.target)+"/reply", "application/json", strings.NewReader(d.data))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode == http.StatusOK {
		return w.accepted(d, "", d.lost)
	}
	var problem struct{ Code, Detail string }
	if err := json.Unmarshal(body, &problem); err != nil {
		return promise("reply to %s: %s: %s", d.target, response.Status, body)
	}
	return w.refusal(d, &refusal{Code: problem.Code, Message: problem.Detail})
}

// note keeps an event, or compares it with what was seen under its seq before.
func (w *witness) note(f *frame) error {
	switch n := uint64(len(w.seen)); {
	case f.seq == 0:
		return nil
	case f.seq <= n:
		if !bytes.Equal(w.seen[f.seq-1], f.raw) {
			return promise("seq %d was\n  %s\nand is\n  %s", f.seq, w.seen[f.seq-1], f.raw)
		}
		return nil
	case f.seq != n+1:
		return promise("seq %d came after %d", f.seq, n)
	}
	raw := bytes.Clone(f.raw)
	w.seen = append(w.seen, raw)
	return w.ledger.add(raw)
}

// finish lets the server end what it has. First the witness only looks, which
// brings no session into memory: all that needs no answer must come to its end
// by itself. Then it sends again what was never acknowledged, and answers every
// question, until nothing is open.
func (w *witness) finish(addr string, deadline time.Time) error {
	return w.talk(addr, false, func(c *client) error {
		if err := c.ws.SetReadDeadline(deadline); err != nil {
			return err
		}
		for w.ledger.busy() {
			if err := w.read(c); err != nil {
				return w.stuck(err)
			}
		}
		for len(w.open) > 0 {
			if err := w.again(c); err != nil {
				return w.stuck(err)
			}
		}
		tried := map[string]bool{}
		for !w.ledger.ended() || w.behind() {
			var open *asked
			for _, q := range w.ledger.open() {
				if !tried[q.id] {
					open = q
				}
			}
			if open == nil {
				if err := w.read(c); err != nil {
					return w.stuck(err)
				}
				continue
			}
			d := w.answer(w.ledger, open)
			tried[open.id] = d.kind == "answer" // the other ways may meet another question
			if err := w.perform(c, d); err != nil {
				return w.stuck(err)
			}
		}
		return nil
	})
}

// behind is true while the event of an acknowledged message has not come.
func (w *witness) behind() bool {
	for id := range w.acked {
		if w.ledger.clients[id] == nil {
			return true
		}
	}
	return false
}

func (w *witness) stuck(err error) error {
	var bad *broken
	if errors.As(err, &bad) {
		return err
	}
	last := ""
	if n := len(w.seen); n > 0 {
		last = string(w.seen[n-1])
	}
	for _, t := range w.ledger.works {
		if !t.ended() {
			return promise("task %s is %s (cancelling: %v), %d questions are open: %v; the last event: %s",
				t.id, t.status, t.cancelling, len(w.ledger.open()), err, last)
		}
	}
	return promise("%d messages have no answer: %v; the last event: %s", len(w.open), err, last)
}

// verify reads the whole log over HTTP, and those of the delegations, and holds
// them against what was promised and shown.
func (w *witness) verify(ctx context.Context, s *server, heard *deposition) (*ledger, error) {
	raws, l, err := readLog(ctx, s, w.session)
	if err != nil {
		return nil, err
	}
	for i, raw := range raws {
		if i < len(w.seen) && !bytes.Equal(raw, w.seen[i]) {
			return nil, promise("seq %d was shown as\n  %s\nand is stored as\n  %s", i+1, w.seen[i], raw)
		}
	}
	if len(raws) < len(w.seen) {
		return nil, promise("the log ends at %d, and seq %d was shown", len(raws), len(w.seen))
	}
	if err := l.closed(); err != nil {
		return nil, err
	}
	if err := w.kept(l); err != nil {
		return nil, err
	}
	heard.hear(l)
	return l, w.inner(ctx, s, w.session, l, heard, l.counts)
}

// readLog reads a session's log, as pages.
func readLog(ctx context.Context, s *server, session string) ([][]byte, *ledger, error) {
	var raws [][]byte
	l := newLedger()
	for {
		body, err := s.get(ctx, fmt.Sprintf("/api/sessions/%s/events?since=%d&limit=200", url.PathEscape(session), len(raws)))
		if err != nil {
			return nil, nil, err
		}
		var page struct{ Items []json.RawMessage }
		if err := json.Unmarshal(body, &page); err != nil {
			return nil, nil, err
		}
		if len(page.Items) == 0 {
			return raws, l, nil
		}
		for _, raw := range page.Items {
			if err := l.add(raw); err != nil {
				return nil, nil, err
			}
			raws = append(raws, raw)
		}
	}
}

// kept holds the log against what the witness was told.
func (w *witness) kept(l *ledger) error {
	place := 0 // of the last accepted message in the order of sending
	for _, m := range l.order {
		text, ours := w.texts[m.client]
		at := slices.Index(w.order, m.client)
		switch {
		case !ours:
			return promise("the log has a message %q that nobody sent", m.client)
		case w.refused[m.client] != "":
			return promise("%s was refused (%s), and is in the log as %s", m.client, w.refused[m.client], m.id)
		case len(m.edits) == 0 && m.text != text:
			return promise("%s was sent as %q and is stored as %q", m.client, text, m.text)
		case w.loose[m.client]:
			continue
		case at < place && !w.skipped:
			return promise("%s was accepted after %s, and sent before", m.client, w.order[place])
		}
		place = at
	}
	for id, message := range w.acked {
		m := l.clients[id]
		switch {
		case m == nil:
			return promise("%s was acknowledged and is not in the log", id)
		case message != "" && m.id != message:
			return promise("%s was acknowledged as %s and is %s", id, message, m.id)
		}
	}
	for _, d := range w.changes {
		m := l.messages[d.target]
		switch {
		case m == nil:
			return promise("%s of %s was acknowledged, and the log does not have it", d.kind, d.target)
		case d.kind == "edit" && !slices.Contains(m.edits, d.text) && d.text != w.texts[m.client]: // one that changes nothing leaves no trace
			return promise("the edit of %s to %q was acknowledged and is not in the log", m.id, d.text)
		case d.kind == "withdraw" && (!m.withdrawn || m.read != 0 || m.how != "withdrawn"):
			return promise("the withdrawal of %s was acknowledged, and it was read in step %d and resolved %s", m.id, m.read, m.how)
		}
	}
	return nil
}

// inner judges the logs of the delegations of a session, and theirs.
func (w *witness) inner(ctx context.Context, s *server, session string, l *ledger, heard *deposition, counts map[string]int) error {
	for _, c := range l.calls {
		if c.session == "" {
			continue
		}
		counts["delegation"]++
		raws, sub, err := readLog(ctx, s, c.session)
		if err != nil || len(raws) == 0 {
			if c.status == "ok" || !isNotFound(err) {
				return fmt.Errorf("the log of %s, which ended %s: %w", c.session, c.status, err)
			}
			continue // it was cancelled before it was told
		}
		if err := w.judgeInner(c, sub); err != nil {
			return fmt.Errorf("%s: %w", c.session, err)
		}
		for what, n := range sub.counts {
			counts[what] += n
		}
		heard.hear(sub)
		if err := w.inner(ctx, s, c.session, sub, heard, counts); err != nil {
			return err
		}
	}
	return nil
}

func (w *witness) judgeInner(c *call, sub *ledger) error {
	switch {
	case len(sub.works) != 1:
		return promise("a delegation has %d tasks", len(sub.works))
	case sub.order[0].text != c.objective:
		return promise("its first message is %q, its objective %q", sub.order[0].text, c.objective)
	case c.status == "ok" && sub.works[0].status != "COMPLETE":
		return promise("it is reported ok and its task is %s", sub.works[0].status)
	}
	return sub.closed()
}

func isNotFound(err error) bool { return err != nil && strings.Contains(err.Error(), "404") }
