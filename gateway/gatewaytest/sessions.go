// Package gatewaytest holds what tests of the gateway need: a scripted stand-in
// for the engine, a WebSocket client that knows the protocol, and golden files.
//
// It does not import the gateway, so that the gateway's own tests can use it.
package gatewaytest

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"parley/conversation"
)

// Epoch is the time of every first event, so that bytes are the same in each run.
var Epoch = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// Sessions stands in for the engine: logs in memory, no rules, no models. Every
// command is answered by Script, or as a friendly engine would. Like the engine
// it works on one command after the other, calls done before it publishes, and
// publishes each commit at once.
type Sessions struct {
	// Script answers a command instead of the default; ok is false to leave it
	// to the default. It is called on the one goroutine that does everything.
	Script func(t Told) (a Answer, ok bool)
	// NotReady is what Ready returns.
	NotReady error

	publisher conversation.Publisher
	stopped   chan struct{}

	work   sync.Mutex // guards queue and closed
	more   *sync.Cond
	queue  []func()
	closed bool

	mu     sync.Mutex // guards logs, erased and tick
	logs   map[conversation.SessionKey]*Log
	erased map[conversation.SessionKey]bool // for ever
	tick   int
}

// Told is a command as it came.
type Told struct {
	Key     conversation.SessionKey
	As      conversation.UserID
	Command conversation.Command
	Log     *Log
}

// Answer is what a script makes of a command: events, and what the sender is told.
type Answer struct {
	Events  []conversation.Event // Seq and At are filled in
	Receipt conversation.Receipt // Seq 0 = that of the last event
	Err     error
	Silent  bool // done is never called: the engine hangs
}

// Log is one session.
type Log struct {
	Key     conversation.SessionKey
	Owner   conversation.UserID
	Access  conversation.Access
	Title   string
	Agent   conversation.AgentName
	Closed  bool
	Policy  conversation.Overrides
	Records []conversation.Record
	Rows    []conversation.TaskRow
	Drafts  []conversation.DraftView
	// What View shows besides.
	Tasks     []conversation.TaskView
	Inbox     []conversation.InboxView
	Questions []conversation.QuestionView
	Calls     []conversation.CallView

	said  map[string]conversation.MessageAccepted
	seqOf map[string]conversation.Seq
	parts map[string]conversation.Receipt
	stops map[string]conversation.Receipt
	seen  map[conversation.UserID]conversation.Seq
	m, t  int
}

// Head is the seq of the log's last event.
func (l *Log) Head() conversation.Seq {
	if len(l.Records) == 0 {
		return 0
	}
	events := l.Records[len(l.Records)-1].Events
	return events[len(events)-1].Seq
}

// Events are all events of the log.
func (l *Log) Events() []conversation.Event {
	var all []conversation.Event
	for _, r := range l.Records {
		all = append(all, r.Events...)
	}
	return all
}

// LogID is the identity of every log.
const LogID conversation.LogID = "log-1"

// NewSessions starts a stand-in that publishes to p. Close it.
func NewSessions(p conversation.Publisher) *Sessions {
	s := &Sessions{
		publisher: p, stopped: make(chan struct{}),
		logs: make(map[conversation.SessionKey]*Log), erased: make(map[conversation.SessionKey]bool),
	}
	s.more = sync.NewCond(&s.work)
	go s.run()
	return s
}

func (s *Sessions) run() {
	defer close(s.stopped)
	for {
		s.work.Lock()
		for len(s.queue) == 0 && !s.closed {
			s.more.Wait()
		}
		if s.closed {
			s.work.Unlock()
			return
		}
		f := s.queue[0]
		s.queue = s.queue[1:]
		s.work.Unlock()
		f()
	}
}

// do queues f for the one goroutine; it never blocks the caller.
func (s *Sessions) do(f func()) {
	s.work.Lock()
	defer s.work.Unlock()
	s.queue = append(s.queue, f)
	s.more.Signal()
}

// Close stops the goroutine. Whatever is still queued is lost.
func (s *Sessions) Close() {
	s.work.Lock()
	s.closed = true
	s.more.Signal()
	s.work.Unlock()
	<-s.stopped
}

// Do runs f on the one goroutine and waits for it: what was asked for before has
// happened then.
func (s *Sessions) Do(f func()) {
	done := make(chan struct{})
	s.do(func() { defer close(done); f() })
	<-done
}

// Hold stops the one goroutine until release is called.
func (s *Sessions) Hold() (release func()) {
	gate := make(chan struct{})
	held := make(chan struct{})
	s.do(func() { close(held); <-gate })
	<-held
	return sync.OnceFunc(func() { close(gate) })
}

// Key is a session of the default tenant.
func Key(session string) conversation.SessionKey {
	return conversation.SessionKey{Tenant: "default", Session: conversation.SessionID(session)}
}

// Open makes a session of owner, with its first event, and waits for it.
func (s *Sessions) Open(session string, owner conversation.UserID) conversation.SessionKey {
	key := Key(session)
	s.Do(func() { s.create(key, conversation.Create{Owner: owner}) })
	return key
}

// With gives f the log of a session, on the one goroutine.
func (s *Sessions) With(key conversation.SessionKey, f func(l *Log)) {
	s.Do(func() {
		s.mu.Lock()
		l := s.logs[key]
		s.mu.Unlock()
		f(l)
	})
}

// Commit stores events as one record and publishes them. It does not wait.
func (s *Sessions) Commit(key conversation.SessionKey, events ...conversation.Event) {
	s.do(func() {
		s.mu.Lock()
		l := s.logs[key]
		s.mu.Unlock()
		if l == nil {
			return
		}
		s.publisher.Publish(key, s.store(l, events))
	})
}

// Store stores events as one record, as a session does that ends before it can
// publish them; the next activation says how far the log reaches.
func (s *Sessions) Store(key conversation.SessionKey, events ...conversation.Event) {
	s.With(key, func(l *Log) {
		s.store(l, events)
		s.publisher.Stored(key, l.Head())
	})
}

// Say commits n messages, one a commit, without a command.
func (s *Sessions) Say(key conversation.SessionKey, n int) {
	for i := range n {
		s.Commit(key, conversation.Event{Body: conversation.MessageAccepted{
			Message: conversation.MessageID("x" + strconv.Itoa(i)), ClientMsgID: conversation.ClientMsgID("x" + strconv.Itoa(i)),
			Author: "local", Text: "message " + strconv.Itoa(i), Disposition: conversation.Queued, Via: conversation.ViaHTTP,
		}})
	}
}

// Show shows an ephemeral thing after the head of a session.
func (s *Sessions) Show(key conversation.SessionKey, e conversation.Ephemeral) {
	s.do(func() {
		s.mu.Lock()
		l := s.logs[key]
		s.mu.Unlock()
		s.publisher.Show(key, l.Head(), e)
	})
}

// store numbers and dates events and appends them as a record.
func (s *Sessions) store(l *Log, events []conversation.Event) []conversation.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	seq := l.Head()
	stored := make([]conversation.Event, len(events))
	for i, e := range events {
		seq++
		e.Seq = seq
		if e.At.IsZero() {
			s.tick++
			e.At = Epoch.Add(time.Duration(s.tick) * time.Millisecond)
		}
		l.row(e)
		stored[i] = e
	}
	if len(stored) > 0 {
		l.Records = append(l.Records, conversation.Record{ID: "c", Events: stored})
	}
	return stored
}

// row keeps the task rows in step with the log.
func (l *Log) row(e conversation.Event) {
	if e.Task == "" {
		return
	}
	i := slices.IndexFunc(l.Rows, func(r conversation.TaskRow) bool { return r.Task == e.Task })
	if i < 0 {
		l.Rows = append(l.Rows, conversation.TaskRow{
			Key: l.Key, Task: e.Task, Status: conversation.TaskQueued, Agent: l.Agent, Owner: l.Owner,
			CreatedAt: e.At, First: e.Seq,
		})
		i = len(l.Rows) - 1
	}
	row := &l.Rows[i]
	row.UpdatedAt = e.At
	switch b := e.Body.(type) {
	case conversation.MessageAccepted:
		if row.Trigger == "" {
			row.Trigger = b.Message
		}
	case conversation.TaskStatusChanged:
		row.Status, row.Error, row.Last = b.New, b.Error, e.Seq
		if row.Trigger == "" {
			row.Trigger = b.Trigger
		}
	}
}

func (s *Sessions) create(key conversation.SessionKey, c conversation.Create) bool {
	s.mu.Lock()
	l := s.logs[key]
	if l != nil {
		s.mu.Unlock()
		return false
	}
	if c.Agent == "" {
		c.Agent = conversation.Coordinator
	}
	l = &Log{
		Key: key, Owner: c.Owner, Access: c.Access, Title: c.Title, Agent: c.Agent, Policy: c.Policy,
		said: make(map[string]conversation.MessageAccepted), seqOf: make(map[string]conversation.Seq),
		parts: make(map[string]conversation.Receipt), stops: make(map[string]conversation.Receipt), seen: make(map[conversation.UserID]conversation.Seq),
	}
	s.logs[key] = l
	s.mu.Unlock()
	s.publisher.Publish(key, s.store(l, []conversation.Event{{Body: conversation.SessionCreated{
		Title: c.Title, Agent: c.Agent, Owner: c.Owner, Access: c.Access, Policy: c.Policy,
	}}}))
	return true
}

// Create opens a session.
func (s *Sessions) Create(key conversation.SessionKey, c conversation.Create, done func(bool, error)) {
	s.do(func() {
		s.mu.Lock()
		erased := s.erased[key]
		s.mu.Unlock()
		if erased {
			done(false, conversation.Errorf(conversation.Conflict, "the session of this name has been erased"))
			return
		}
		done(s.create(key, c), nil)
	})
}

func (l *Log) visible(as conversation.UserID) bool {
	return l != nil && (as == "" || l.Owner == as || l.Access == conversation.AccessTenant)
}

var errNoSession = conversation.Errorf(conversation.NotFound, "there is no such session")

// Tell answers a command, by the script or by default.
func (s *Sessions) Tell(key conversation.SessionKey, as conversation.UserID, c conversation.Command, done func(conversation.Receipt, error)) {
	s.do(func() {
		s.mu.Lock()
		l := s.logs[key]
		s.mu.Unlock()
		if !l.visible(as) {
			done(conversation.Receipt{}, errNoSession)
			return
		}
		var a Answer
		ok := false
		if s.Script != nil {
			a, ok = s.Script(Told{Key: key, As: as, Command: c, Log: l})
		}
		if !ok {
			a = l.answer(c)
		}
		if a.Err != nil {
			done(conversation.Receipt{}, a.Err)
			return
		}
		events := s.store(l, a.Events)
		if a.Receipt.Seq == 0 {
			a.Receipt.Seq = l.Head()
		}
		if say, ok := c.(conversation.Say); ok && len(events) > 0 {
			l.seqOf[string(say.Author)+"\x00"+string(say.ClientMsgID)] = events[0].Seq
			a.Receipt.Seq = events[0].Seq
		}
		if a.Silent {
			return
		}
		done(a.Receipt, nil)
		if len(events) > 0 {
			s.publisher.Publish(key, events)
		}
	})
}

// View shows a session.
func (s *Sessions) View(key conversation.SessionKey, as conversation.UserID, done func(conversation.View, error)) {
	s.do(func() {
		s.mu.Lock()
		l := s.logs[key]
		s.mu.Unlock()
		if !l.visible(as) {
			done(conversation.View{}, errNoSession)
			return
		}
		done(conversation.View{
			Key: key, Log: LogID, Head: l.Head(), Title: l.Title, Agent: l.Agent, Owner: l.Owner, Access: l.Access,
			Policy: l.Policy, Closed: l.Closed, CreatedAt: Epoch,
			Tasks: l.Tasks, Inbox: l.Inbox, Questions: l.Questions, Calls: l.Calls, Drafts: l.Drafts,
		}, nil)
	})
}

// Erase deletes a session and those below it.
func (s *Sessions) Erase(_ context.Context, key conversation.SessionKey, as conversation.UserID) error {
	var err error
	s.Do(func() {
		s.mu.Lock()
		l := s.logs[key]
		if !l.visible(as) {
			s.mu.Unlock()
			err = errNoSession
			return
		}
		s.erased[key] = true
		maps.DeleteFunc(s.logs, func(k conversation.SessionKey, _ *Log) bool {
			return k == key || (k.Tenant == key.Tenant && strings.HasPrefix(string(k.Session), string(key.Session)+"/"))
		})
		s.mu.Unlock()
		s.publisher.Gone(key, "erased")
	})
	return err
}

// Records iterates over a snapshot of the records.
func (s *Sessions) Records(ctx context.Context, key conversation.SessionKey, r conversation.Range) iter.Seq2[conversation.Record, error] {
	return func(yield func(conversation.Record, error) bool) {
		s.mu.Lock()
		var records []conversation.Record
		if l := s.logs[key]; l != nil {
			records = slices.Clone(l.Records)
		}
		s.mu.Unlock()
		if r.Reverse {
			slices.Reverse(records)
		}
		n := 0
		for _, record := range records {
			if ctx.Err() != nil {
				yield(conversation.Record{}, ctx.Err())
				return
			}
			in := slices.ContainsFunc(record.Events, func(e conversation.Event) bool {
				return e.Seq > r.After && (r.Before == 0 || e.Seq < r.Before)
			})
			if !in {
				continue
			}
			if !yield(record, nil) {
				return
			}
			if n++; r.Limit > 0 && n == r.Limit {
				return
			}
		}
	}
}

func (l *Log) summary() conversation.Summary {
	return conversation.Summary{
		Key: l.Key, Title: l.Title, Agent: l.Agent, Owner: l.Owner, Access: l.Access, Closed: l.Closed,
		CreatedAt: Epoch, Activity: l.Records[len(l.Records)-1].Events[0].At, Last: l.Head(),
	}
}

// Summary reads one session's list entry.
func (s *Sessions) Summary(_ context.Context, key conversation.SessionKey) (conversation.Summary, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.logs[key]; l != nil {
		return l.summary(), nil
	}
	return conversation.Summary{}, conversation.ErrNotFound
}

// Sessions lists root sessions, newest activity first.
func (s *Sessions) Sessions(_ context.Context, p conversation.Page) iter.Seq2[conversation.Summary, error] {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []conversation.Summary
	for key, l := range s.logs {
		if key.Tenant == p.Tenant && key.Session.Depth() == 0 {
			row := l.summary()
			row.Seen = l.seen[p.For]
			all = append(all, row)
		}
	}
	slices.SortFunc(all, func(a, b conversation.Summary) int {
		if c := b.Activity.Compare(a.Activity); c != 0 {
			return c
		}
		return strings.Compare(string(a.Key.Session), string(b.Key.Session))
	})
	if p.Cursor != "" {
		i := slices.IndexFunc(all, func(r conversation.Summary) bool { return r.PageCursor() == p.Cursor })
		all = all[i+1:]
	}
	return list(all)
}

func list[T any](all []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range all {
			if !yield(v, nil) {
				return
			}
		}
	}
}

// Task reads one row.
func (s *Sessions) Task(_ context.Context, key conversation.SessionKey, task conversation.TaskID) (conversation.TaskRow, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.logs[key]; l != nil {
		for _, r := range l.Rows {
			if r.Task == task {
				return r, nil
			}
		}
	}
	return conversation.TaskRow{}, conversation.ErrNotFound
}

// Tasks lists rows, newest first.
func (s *Sessions) Tasks(_ context.Context, f conversation.TaskFilter) iter.Seq2[conversation.TaskRow, error] {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []conversation.TaskRow
	for key, l := range s.logs {
		if key.Tenant != f.Tenant || (f.Session != "" && key.Session != f.Session) {
			continue
		}
		for _, r := range l.Rows {
			if f.Status == 0 || r.Status == f.Status {
				all = append(all, r)
			}
		}
	}
	slices.SortFunc(all, func(a, b conversation.TaskRow) int { return b.CreatedAt.Compare(a.CreatedAt) })
	if f.Cursor != "" {
		i := slices.IndexFunc(all, func(r conversation.TaskRow) bool { return r.PageCursor() == f.Cursor })
		all = all[i+1:]
	}
	return list(all)
}

// Ready is nil unless NotReady is set.
func (s *Sessions) Ready() error { return s.NotReady }

// answer is what a friendly engine would say.
func (l *Log) answer(c conversation.Command) Answer {
	id := func(n int, letter string) string { return fmt.Sprintf("%s%d-%s", letter, n, l.Key.Session) }
	switch c := c.(type) {
	case conversation.Say:
		if l.Closed {
			return Answer{Err: conversation.Errorf(conversation.SessionIsClosed, "the session is closed")}
		}
		client := string(c.Author) + "\x00" + string(c.ClientMsgID)
		if before, ok := l.said[client]; ok {
			if before.Text != c.Text {
				return Answer{Err: conversation.Errorf(conversation.Conflict, "another message was sent with this id")}
			}
			return Answer{Receipt: conversation.Receipt{Message: before.Message, Duplicate: true, Seq: l.seqOf[client]}}
		}
		l.m++
		l.t++
		accepted := conversation.MessageAccepted{
			Message: conversation.MessageID(id(l.m, "m")), ClientMsgID: c.ClientMsgID, Author: c.Author, Text: c.Text,
			Disposition: conversation.Started, Via: c.Via, Mode: c.Mode, InReplyTo: c.InReplyTo,
		}
		if c.Mode == conversation.ModeQueue {
			accepted.Disposition = conversation.Queued
		}
		l.said[client] = accepted
		task := conversation.TaskID(id(l.t, "t"))
		return Answer{
			Events:  []conversation.Event{{Task: task, Body: accepted}},
			Receipt: conversation.Receipt{Message: accepted.Message, Disposition: accepted.Disposition, Task: task},
		}
	case conversation.Answer:
		return Answer{
			Events:  []conversation.Event{{Body: conversation.QuestionAnswered{Question: c.Question, Text: c.Text, By: string(c.Author)}}},
			Receipt: conversation.Receipt{Message: conversation.MessageID(id(l.m, "m")), OldStatus: conversation.TaskAwaiting, NewStatus: conversation.TaskQueued},
		}
	case conversation.Reply:
		for _, r := range l.Rows {
			if r.Task != c.Task {
				continue
			}
			if r.Status != conversation.TaskAwaiting {
				return Answer{Err: &conversation.Error{Code: conversation.TaskNotAwaiting, Message: "the task does not wait for a reply", TaskStatus: r.Status}}
			}
			l.m++
			m := conversation.MessageID(id(l.m, "m"))
			return Answer{
				Events: []conversation.Event{
					{Task: c.Task, Body: conversation.MessageAccepted{Message: m, ClientMsgID: c.ClientMsgID, Author: c.Author, Text: c.Text, Disposition: conversation.Answered, Via: c.Via, Question: "q1"}},
					{Task: c.Task, Body: conversation.QuestionAnswered{Question: "q1", Message: m, Text: c.Text, By: string(c.Author)}},
					{Task: c.Task, Body: conversation.MessageResolved{Message: m, How: conversation.ResolvedMerged, Question: "q1"}},
					{Task: c.Task, Body: conversation.TaskStatusChanged{Trigger: r.Trigger, Old: r.Status, New: conversation.TaskQueued}},
				},
				Receipt: conversation.Receipt{Message: m, Task: c.Task, OldStatus: r.Status, NewStatus: conversation.TaskQueued},
			}
		}
		return Answer{Err: conversation.Errorf(conversation.NotFound, "there is no such task")}
	case conversation.Edit:
		return Answer{Events: []conversation.Event{{Body: conversation.MessageEdited{Message: c.Message, Text: c.Text}}}}
	case conversation.Withdraw:
		return Answer{Events: []conversation.Event{{Body: conversation.MessageWithdrawn{Message: c.Message}}}}
	case conversation.Move:
		return Answer{Events: []conversation.Event{{Body: conversation.MessageMoved{Message: c.Message, Before: c.Before}}}}
	case conversation.Cancel:
		return l.cancel(c)
	case conversation.Update:
		if c.Title != nil {
			l.Title = *c.Title
		}
		if c.Access != nil {
			l.Access = *c.Access
		}
		if _, bad := conversation.DefaultPolicy().With(c.Policy); bad != nil {
			return Answer{Err: bad}
		}
		l.Policy = maps.Clone(l.Policy)
		for k, v := range c.Policy {
			if l.Policy == nil {
				l.Policy = conversation.Overrides{}
			}
			l.Policy[k] = v
		}
		return Answer{
			Events:  []conversation.Event{{Body: conversation.SessionUpdated{Title: c.Title, Access: c.Access, Policy: c.Policy}}},
			Receipt: conversation.Receipt{Policy: l.Policy},
		}
	case conversation.Close:
		l.Closed = true
		return Answer{Events: []conversation.Event{{Body: conversation.SessionClosed{Reason: c.Reason}}}}
	case conversation.Seen:
		l.seen[c.User] = max(l.seen[c.User], c.Seq)
		return Answer{}
	case conversation.AddPart:
		return l.addPart(c, id)
	default:
		return Answer{Err: conversation.Errorf(conversation.Internal, "%s is not scripted", c.Name())}
	}
}

func (l *Log) cancel(c conversation.Cancel) Answer {
	name := string(c.Author) + "\x00" + string(c.ClientMsgID)
	if before, ok := l.stops[name]; ok && c.ClientMsgID != "" {
		return Answer{Receipt: before}
	}
	for _, r := range l.Rows {
		if r.Task == c.Task || (c.Task == "" && !r.Status.Ended()) {
			if r.Status.Ended() {
				break
			}
			l.stops[name] = conversation.Receipt{Task: r.Task, Seq: l.Head() + 1, Duplicate: true}
			return Answer{
				Events: []conversation.Event{
					{Task: r.Task, Body: conversation.TaskCancelling{By: c.By, Until: Epoch, Reason: c.Reason}},
					{Task: r.Task, Body: conversation.TaskStatusChanged{Trigger: r.Trigger, Old: r.Status, New: conversation.TaskCancelled}},
				},
				Receipt: conversation.Receipt{Task: r.Task, OldStatus: r.Status},
			}
		}
	}
	return Answer{Err: conversation.Errorf(conversation.NotFound, "there is nothing to cancel")}
}

func (l *Log) addPart(c conversation.AddPart, id func(int, string) string) Answer {
	if strings.TrimSpace(c.Text) == "" {
		return Answer{Receipt: conversation.Receipt{Nothing: true}}
	}
	name := fmt.Sprintf("%s/%d", c.Source, c.Index)
	if c.Source == "" {
		name = fmt.Sprintf("%s\x00%s", c.Author, c.ClientMsgID)
	}
	if before, ok := l.parts[name]; ok && (c.Source != "" || c.ClientMsgID != "") {
		before.Duplicate = true
		return Answer{Receipt: before}
	}
	l.m++
	part := conversation.Part{Message: conversation.MessageID(id(l.m, "p")), Index: c.Index, Text: c.Text}
	if c.Source != "" {
		part.Source = conversation.SourceID("ext:" + c.Source)
	}
	var body conversation.EventBody = conversation.PartialResponse{Part: part}
	if c.Final {
		body = conversation.Response{Part: part}
	}
	r := conversation.Receipt{Message: part.Message, PartIndex: c.Index, Seq: l.Head() + 1}
	l.parts[name] = r
	return Answer{Events: []conversation.Event{{Body: body}}, Receipt: r}
}
