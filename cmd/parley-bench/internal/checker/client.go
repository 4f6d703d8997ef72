package checker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley/cmd/parley-bench/internal/load"
)

// client performs the operations of its generator in one session, over one
// connection after the other. It keeps the history: each answer of the server and
// each event that it was shown.
type client struct {
	generator
	mode         string // the inbox mode of its session
	session      string
	addr         string
	texts        map[string]string       // client_msg_id → text, of every message ever sent
	order        []string                // their ids in the order of sending
	acknowledged map[string]string       // client_msg_id → message, "" if the answer did not name it
	refused      map[string]string       // client_msg_id → why: it must not be in the log
	orderUnknown map[string]bool         // client_msg_id of messages that may have been refused just before a crash: accepted when repeated, they come later in the log
	unanswered   []*operation            // operations without an answer yet
	repeatable   []*operation            // acknowledged messages, which may be sent again
	changes      []*operation            // acknowledged edits, withdrawals and moves
	history      [][]byte                // [i] is the event with seq i+1, as it came first
	model        *model                  // of the history
	counts       map[string]int          // of answers, by command
	patience     time.Duration           // for an answer or an event; 0 = any time, as with a server that is there or dead
	until        time.Time               // the work that is left must have ended; of a swarm's client
	many         bool                    // several nodes take its commands: what was given up may still be under way at one of them
	elsewhere    func(*rand.Rand) string // another node; of a swarm's client
	failure      error                   // what ended its work; nil after a lost connection
}

func newClient(i int, seed uint64) *client {
	name := "w" + strconv.Itoa(i)
	return &client{
		generator: generator{name: name, random: rand.New(rand.NewPCG(seed, uint64(i)+2))},
		mode:      []string{"steer", "queue", "collect", "interrupt", "reject"}[i%5],
		texts:     map[string]string{}, acknowledged: map[string]string{}, refused: map[string]string{}, orderUnknown: map[string]bool{}, model: newModel(), counts: map[string]int{},
	}
}

// violation is an observation that the contract does not allow.
type violation struct{ what string }

func (v *violation) Error() string { return v.what }

func violationf(format string, args ...any) error { return &violation{fmt.Sprintf(format, args...)} }

// runUntilKilled performs operations until the server is killed. A lost connection
// is expected; anything else goes to cl.failure.
func (cl *client) runUntilKilled(addr string) {
	err := cl.connect(addr, true, func(c *load.Conn) error {
		if err := cl.repeatUnanswered(c); err != nil {
			return err
		}
		for { // ends with the socket
			if err := cl.burst(c); err != nil {
				return err
			}
		}
	})
	var violated *violation
	switch {
	case errors.As(err, &violated):
		cl.failure = violated
	case load.CloseCode(err) >= 4500: // the protocol's own: the server found fault with the client
		cl.failure = err
	}
}

// burst performs some operations at once, and looks at some of what comes of them.
func (cl *client) burst(c *load.Conn) error {
	burst := []*operation{cl.next(cl.model, cl.repeatable)}
	for n := cl.random.IntN(3); len(burst) <= n && burst[0].kind != "reply"; {
		// A reply goes over HTTP, so its place in the order would be unknown: it goes alone.
		if op := cl.next(cl.model, cl.repeatable); op.kind != "reply" {
			burst = append(burst, op)
		}
	}
	if err := cl.perform(c, burst...); err != nil {
		return err
	}
	for range cl.random.IntN(15) {
		if !cl.model.busy() {
			break // nothing would come
		}
		if err := cl.readEvent(c); err != nil {
			return err
		}
	}
	return nil
}

// connect opens a connection, resumes the session, and calls then.
func (cl *client) connect(addr string, create bool, then func(*load.Conn) error) error {
	cl.addr = addr
	c, err := load.DialWithin(addr, cl.patience, "deltas")
	if err != nil {
		return err
	}
	defer c.Close()
	if err := cl.wait(c); err != nil {
		return err
	}
	if create || cl.session == "" {
		if err := cl.create(c); err != nil {
			return err
		}
	}
	// Some events are asked for again, to compare them.
	since := max(0, len(cl.history)-cl.random.IntN(20))
	id, err := c.Write("follow", cl.session, `{"since":`+strconv.Itoa(since)+`}`)
	if err != nil {
		return err
	}
	data, err := c.Answer(id, nil)
	if err != nil {
		return outsideRefusal("follow", err)
	}
	var followed struct {
		Head    uint64
		Resumed bool
	}
	if err := json.Unmarshal(data, &followed); err != nil || !followed.Resumed {
		return violationf("follow since %d was not resumed: %s", since, data)
	}
	if followed.Head < uint64(len(cl.history)) {
		return violationf("the head is %d, and seq %d was seen", followed.Head, len(cl.history))
	}
	for {
		f, err := c.Read()
		if err != nil {
			return err
		}
		if string(f.Type) == "synced" {
			break
		}
		if err := cl.record(f); err != nil {
			return err
		}
	}
	return then(c)
}

// create makes the session, or finds it again.
func (cl *client) create(c *load.Conn) error {
	data, err := c.Ask("create", "", `{"client_session_id":"`+cl.name+`","policy":{"inbox.mode":"`+cl.mode+`"}}`)
	if err != nil {
		return outsideRefusal("create", err)
	}
	var created struct{ Session string }
	if err := json.Unmarshal(data, &created); err != nil {
		return violationf("create's answer: %s", data)
	}
	if cl.session != "" && cl.session != created.Session {
		return violationf("client_session_id %s is session %s now, it was %s", cl.name, created.Session, cl.session)
	}
	cl.session = created.Session
	return nil
}

// repeatUnanswered performs the operations without an answer again, with the same ids.
func (cl *client) repeatUnanswered(c *load.Conn) error {
	open := cl.unanswered
	cl.unanswered = nil
	for i, op := range open {
		if err := cl.perform(c, op); err != nil {
			cl.unanswered = append(cl.unanswered, open[i+1:]...)
			return err
		}
	}
	return nil
}

// readEvent reads one frame that is not an answer.
func (cl *client) readEvent(c *load.Conn) error {
	if err := cl.wait(c); err != nil {
		return err
	}
	f, err := c.Read()
	if err != nil {
		return err
	}
	if f.Re != nil {
		return violationf("an answer to nothing that was asked: %s", f.Raw)
	}
	return cl.record(f)
}

// perform sends the operations without waiting in between, and then waits for all
// their answers. Those without an answer when the connection ends are kept in
// cl.unanswered.
func (cl *client) perform(c *load.Conn, ops ...*operation) (err error) {
	waiting := map[string]*operation{}
	given := 0
	defer func() {
		for _, op := range ops[:given] {
			if op.clientMsgID != "" && !op.repeated && slices.Contains(slices.Collect(maps.Values(waiting)), op) {
				op.maybeDone = true
				cl.unanswered = append(cl.unanswered, op)
				// One node may have refused it for the moment while the next one was taken.
				overtaken := cl.many && op != ops[given-1]
				if overtaken || op.mode == "reject" || op.mode == "" && cl.mode == "reject" {
					cl.orderUnknown[op.clientMsgID] = true
				}
			}
		}
	}()
	if err := cl.wait(c); err != nil {
		return err
	}
	for i, op := range ops {
		if op.clientMsgID != "" && cl.texts[op.clientMsgID] == "" {
			cl.texts[op.clientMsgID] = op.text
			cl.order = append(cl.order, op.clientMsgID)
		}
		given = i + 1
		if op.kind == "reply" {
			waiting["http "+strconv.Itoa(i)] = op
			if err := cl.replyByHTTP(op); err != nil {
				return err
			}
			delete(waiting, "http "+strconv.Itoa(i))
			continue
		}
		id, err := c.Write(op.kind, cl.session, op.data)
		waiting[id] = op
		if err != nil {
			return err
		}
	}
	for len(waiting) > 0 {
		f, err := c.Read()
		switch {
		case err != nil:
			return err
		case f.Re == nil:
			if err := cl.record(f); err != nil {
				return err
			}
			continue
		}
		op := waiting[string(f.Re)]
		if op == nil {
			return violationf("an answer to nothing that was asked: %s", f.Raw)
		}
		delete(waiting, string(f.Re))
		if err := cl.handleAnswer(op, f); err != nil {
			return err
		}
	}
	return nil
}

// handleAnswer takes an answer of the socket.
func (cl *client) handleAnswer(op *operation, f *load.Frame) error {
	if string(f.Type) == "ok" {
		var data struct {
			Message   string
			Duplicate bool
		}
		if err := json.Unmarshal(f.Data, &data); err != nil {
			return violationf("%s was answered %s", op.kind, f.Raw)
		}
		return cl.handleOK(op, data.Message, data.Duplicate)
	}
	r := &load.Refusal{}
	if err := json.Unmarshal(f.Err, r); err != nil {
		return violationf("an unreadable error: %s", f.Raw)
	}
	return cl.handleRefusal(op, r)
}

func (cl *client) handleOK(op *operation, message string, duplicate bool) error {
	cl.counts["ok "+op.kind]++
	if op.repeated || op.maybeDone {
		cl.counts["ok again"]++
	}
	switch op.kind {
	case "edit", "withdraw", "move":
		cl.changes = append(cl.changes, op)
		return nil
	case "cancel":
		return nil
	}
	if op.repeated {
		if known := cl.acknowledged[op.clientMsgID]; !duplicate || known != message {
			return violationf("%s was sent again and is %s (duplicate: %v), it was %s", op.clientMsgID, message, duplicate, known)
		}
		return nil
	}
	if duplicate && !op.maybeDone && !cl.many { // a node may have sent it twice to others
		return violationf("%s is a duplicate, and was sent once", op.clientMsgID)
	}
	cl.acknowledged[op.clientMsgID] = message
	if message != "" {
		cl.repeatable = append(cl.repeatable, op)
	}
	return nil
}

// allowedRefusals are the error codes with which each kind of operation may be refused.
var allowedRefusals = map[string][]string{
	"send":     {"session_busy", "inbox_full"},
	"answer":   {"question_closed"},
	"reply":    {"task_not_awaiting", "bad_request"}, // another question of the task may be the newest by now, and wants yes or no
	"edit":     {"conflict"},
	"withdraw": {"conflict"},
	"move":     {"conflict"},
	"cancel":   {"not_found"},
}

func (cl *client) handleRefusal(op *operation, r *load.Refusal) error {
	cl.counts["refused "+r.Code]++
	switch {
	case slices.Contains(allowedRefusals[op.kind], r.Code) && !op.repeated:
		if op.clientMsgID != "" && (!cl.many || !op.maybeDone) {
			cl.refused[op.clientMsgID] = r.Code
		}
		return nil
	case forTheMoment(r):
		if op.clientMsgID != "" && !op.repeated {
			cl.orderUnknown[op.clientMsgID] = true
			op.maybeDone = true // a timeout may have been carried out
			cl.unanswered = append(cl.unanswered, op)
		}
		return nil
	}
	return violationf("%s %s%s %q was refused: %v", op.kind, op.clientMsgID, op.target, op.text, r)
}

// forTheMoment is true for what a client may be told while servers and databases come and go.
func forTheMoment(r *load.Refusal) bool {
	return r.Code == "overloaded" || r.Code == "unavailable" || r.Code == "timeout"
}

// outsideRefusal makes a violation of an answer to a command that is none of the
// generator's, unless it may be asked again.
func outsideRefusal(command string, err error) error {
	var r *load.Refusal
	if errors.As(err, &r) && !forTheMoment(r) {
		return violationf("%s was refused: %v", command, r)
	}
	return err
}

// wait gives the server the client's patience for what is read next.
func (cl *client) wait(c *load.Conn) error {
	if cl.patience == 0 {
		return nil
	}
	return c.SetReadDeadline(time.Now().Add(cl.patience))
}

// replyByHTTP answers the task's question over HTTP.
func (cl *client) replyByHTTP(op *operation) error {
	web := http.Client{Timeout: cl.patience}
	response, err := web.Post("http://"+cl.addr+"/api/tasks/"+url.PathEscape(op.target)+"/reply", "application/json", strings.NewReader(op.data))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode == http.StatusOK {
		return cl.handleOK(op, "", op.maybeDone)
	}
	var problem struct{ Code, Detail string }
	if err := json.Unmarshal(body, &problem); err != nil {
		return violationf("reply to %s: %s: %s", op.target, response.Status, body)
	}
	return cl.handleRefusal(op, &load.Refusal{Code: problem.Code, Message: problem.Detail})
}

// record adds an event to the history, or compares it with the event that came with
// this seq before.
func (cl *client) record(f *load.Frame) error {
	switch n := uint64(len(cl.history)); {
	case f.Seq == 0:
		return cl.passing(f)
	case f.Seq <= n:
		if !bytes.Equal(cl.history[f.Seq-1], f.Raw) {
			return violationf("seq %d was\n  %s\nand is\n  %s", f.Seq, cl.history[f.Seq-1], f.Raw)
		}
		return nil
	case f.Seq != n+1:
		return violationf("seq %d came after %d", f.Seq, n)
	}
	raw := bytes.Clone(f.Raw)
	cl.history = append(cl.history, raw)
	return cl.model.apply(raw)
}

// finish lets the server end its work. First the client only follows, which brings
// no session into memory: all that needs no answer must end by itself. Then it
// repeats the operations without an answer and answers every question, until
// nothing is open.
func (cl *client) finish(addr string, deadline time.Time) error {
	return cl.connect(addr, false, func(c *load.Conn) error {
		if err := c.SetReadDeadline(deadline); err != nil {
			return err
		}
		for cl.model.busy() {
			if err := cl.readEvent(c); err != nil {
				return cl.stuck(err)
			}
		}
		for len(cl.unanswered) > 0 {
			if err := cl.repeatUnanswered(c); err != nil {
				return cl.stuck(err)
			}
		}
		tried := map[string]bool{}
		for !cl.model.allEnded() || cl.missesEvents() {
			var open *question
			for _, q := range cl.model.openQuestions() {
				if !tried[q.id] {
					open = q
				}
			}
			if open == nil {
				if err := cl.readEvent(c); err != nil {
					return cl.stuck(err)
				}
				continue
			}
			op := cl.answer(cl.model, open)
			tried[open.id] = op.kind == "answer" // the other ways may meet another question
			if err := cl.perform(c, op); err != nil {
				return cl.stuck(err)
			}
		}
		return nil
	})
}

// missesEvents is true while the event of an acknowledged message has not come.
func (cl *client) missesEvents() bool {
	for id := range cl.acknowledged {
		if cl.model.byClientMsgID[id] == nil {
			return true
		}
	}
	return false
}

func (cl *client) stuck(err error) error {
	var violated *violation
	if errors.As(err, &violated) || cl.many && time.Now().Before(cl.until) { // another node may do it
		return err
	}
	last := ""
	if n := len(cl.history); n > 0 {
		last = string(cl.history[n-1])
	}
	for _, t := range cl.model.taskOrder {
		if !t.ended() {
			return violationf("task %s is %s (cancelling: %v), %d questions are open: %v; the last event: %s",
				t.id, t.status, t.cancelling, len(cl.model.openQuestions()), err, last)
		}
	}
	return violationf("%d messages have no answer: %v; the last event: %s", len(cl.unanswered), err, last)
}

// check reads the whole log over HTTP, and the logs of the delegations, and compares
// them with the history.
func (cl *client) check(ctx context.Context, s *load.Server, effects *sideEffects) (*model, error) {
	raws, md, err := readLog(ctx, s, cl.session)
	if err != nil {
		return nil, err
	}
	for i, raw := range raws {
		if i < len(cl.history) && !bytes.Equal(raw, cl.history[i]) {
			return nil, violationf("seq %d was shown as\n  %s\nand is stored as\n  %s", i+1, cl.history[i], raw)
		}
	}
	if len(raws) < len(cl.history) {
		return nil, violationf("the log ends at %d, and seq %d was shown", len(raws), len(cl.history))
	}
	if err := md.checkEnd(); err != nil {
		return nil, err
	}
	if err := cl.checkErrors(md, ""); err != nil {
		return nil, err
	}
	if err := cl.checkAcknowledged(md); err != nil {
		return nil, err
	}
	effects.add(md)
	return md, cl.checkDelegations(ctx, s, cl.session, md, effects, md.counts)
}

// readLog reads a session's log, as pages.
func readLog(ctx context.Context, s *load.Server, session string) ([][]byte, *model, error) {
	var raws [][]byte
	md := newModel()
	for {
		body, err := s.Get(ctx, fmt.Sprintf("/api/sessions/%s/events?since=%d&limit=200", url.PathEscape(session), len(raws)))
		if err != nil {
			return nil, nil, err
		}
		var page struct{ Items []json.RawMessage }
		if err := json.Unmarshal(body, &page); err != nil {
			return nil, nil, err
		}
		if len(page.Items) == 0 {
			return raws, md, nil
		}
		for _, raw := range page.Items {
			if err := md.apply(raw); err != nil {
				return nil, nil, err
			}
			raws = append(raws, raw)
		}
	}
}

// checkAcknowledged compares the log with the answers that the client got.
func (cl *client) checkAcknowledged(md *model) error {
	place := 0 // of the last accepted message in the order of sending
	for _, m := range md.messageOrder {
		text, ours := cl.texts[m.clientMsgID]
		at := slices.Index(cl.order, m.clientMsgID)
		switch {
		case !ours:
			return violationf("the log has a message %q that nobody sent", m.clientMsgID)
		case cl.refused[m.clientMsgID] != "":
			return violationf("%s was refused (%s), and is in the log as %s", m.clientMsgID, cl.refused[m.clientMsgID], m.id)
		case len(m.edits) == 0 && m.text != text:
			return violationf("%s was sent as %q and is stored as %q", m.clientMsgID, text, m.text)
		case cl.orderUnknown[m.clientMsgID]:
			continue
		case at < place:
			return violationf("%s was accepted after %s, and sent before", m.clientMsgID, cl.order[place])
		}
		place = at
	}
	for id, message := range cl.acknowledged {
		m := md.byClientMsgID[id]
		switch {
		case m == nil:
			return violationf("%s was acknowledged and is not in the log", id)
		case message != "" && m.id != message:
			return violationf("%s was acknowledged as %s and is %s", id, message, m.id)
		}
	}
	for _, op := range cl.changes {
		m := md.messages[op.target]
		switch {
		case m == nil:
			return violationf("%s of %s was acknowledged, and the log does not have it", op.kind, op.target)
		case op.kind == "edit" && !slices.Contains(m.edits, op.text) && op.text != cl.texts[m.clientMsgID]: // one that changes nothing leaves no trace
			return violationf("the edit of %s to %q was acknowledged and is not in the log", m.id, op.text)
		case op.kind == "withdraw" && (!m.withdrawn || m.read != 0 || m.resolution != "withdrawn"):
			return violationf("the withdrawal of %s was acknowledged, and it was read in step %d and resolved %s", m.id, m.read, m.resolution)
		}
	}
	return nil
}

// checkDelegations checks the logs of the delegations of a session, and theirs.
func (cl *client) checkDelegations(ctx context.Context, s *load.Server, session string, md *model, effects *sideEffects, counts map[string]int) error {
	for _, c := range md.calls {
		if c.session == "" {
			continue
		}
		counts["delegation"]++
		raws, sub, err := readLog(ctx, s, c.session)
		if err != nil || len(raws) == 0 {
			if c.status == "ok" || !isNotFound(err) {
				return fmt.Errorf("the log of %s, which ended %s: %w", c.session, c.status, err)
			}
			continue // it was cancelled before its sub-session got the objective
		}
		if err := errors.Join(cl.checkDelegation(c, sub), cl.checkErrors(sub, c.objective)); err != nil {
			return fmt.Errorf("%s: %w", c.session, err)
		}
		for what, n := range sub.counts {
			counts[what] += n
		}
		effects.add(sub)
		if err := cl.checkDelegations(ctx, s, c.session, sub, effects, counts); err != nil {
			return err
		}
	}
	return nil
}

func (cl *client) checkDelegation(c *call, sub *model) error {
	switch {
	case len(sub.taskOrder) != 1:
		return violationf("a delegation has %d tasks", len(sub.taskOrder))
	case sub.messageOrder[0].text != c.objective:
		return violationf("its first message is %q, its objective %q", sub.messageOrder[0].text, c.objective)
	case c.status == "ok" && sub.taskOrder[0].status != "COMPLETE":
		return violationf("it is reported ok and its task is %s", sub.taskOrder[0].status)
	}
	return sub.checkEnd()
}

// checkErrors finds tasks that ended in ERROR although their model did not fail for
// good, as that of one script does. One node that is killed often enough may give up a
// task; that a session moves to another one never does.
func (cl *client) checkErrors(md *model, objective string) error {
	if !cl.many || strings.Contains(objective, failsForGood) {
		return nil
	}
	for _, t := range md.taskOrder {
		if t.status == "ERROR" {
			return violationf("task %s ended in ERROR", t.id)
		}
	}
	return nil
}

func isNotFound(err error) bool { return err != nil && strings.Contains(err.Error(), "404") }
