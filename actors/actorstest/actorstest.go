package actorstest

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"

	"parley/conversation"
)

// Journal is the order in which things happened, one line each.
type Journal struct {
	mu    sync.Mutex
	lines []string
}

// Add appends a line.
func (j *Journal) Add(line string) {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

// Lines is a copy of what has happened so far.
func (j *Journal) Lines() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lines)
}

// Index is the place of the first line that has this prefix; -1 if none.
func (j *Journal) Index(prefix string) int {
	return slices.IndexFunc(j.Lines(), func(l string) bool { return strings.HasPrefix(l, prefix) })
}

// Publisher remembers what it was shown.
type Publisher struct {
	Journal *Journal // gets "publish <kind>" for each event and "show <type>"; may be nil
	// Log reads the events behind a seq. With it the publisher catches up from the
	// log as a follower does when it learns that more is stored than it was shown.
	Log func(key conversation.SessionKey, after conversation.Seq) []conversation.Event
	// Asked are those who follow every session: the journal gets whether they still may.
	Asked []conversation.UserID

	mu     sync.Mutex
	events map[conversation.SessionKey][]conversation.Event
	shown  map[conversation.SessionKey][]Shown
	gone   []conversation.SessionKey
}

// Shown is an ephemeral thing, the epoch of its writer and the durable seq that it came behind.
type Shown struct {
	Epoch conversation.Epoch
	After conversation.Seq
	What  conversation.Ephemeral
}

var _ conversation.Publisher = (*Publisher)(nil)

// Publish implements conversation.Publisher.
func (p *Publisher) Publish(key conversation.SessionKey, _ conversation.Epoch, events []conversation.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.events == nil {
		p.events = map[conversation.SessionKey][]conversation.Event{}
	}
	p.events[key] = append(p.events[key], events...)
	for _, e := range events {
		p.Journal.Add("publish " + e.Body.Kind().String())
	}
}

// Stored implements conversation.Publisher.
func (p *Publisher) Stored(key conversation.SessionKey, epoch conversation.Epoch, head conversation.Seq) {
	p.mu.Lock()
	var last conversation.Seq
	if shown := p.events[key]; len(shown) > 0 {
		last = shown[len(shown)-1].Seq
	}
	p.mu.Unlock()
	if p.Log != nil && head > last {
		p.Publish(key, epoch, p.Log(key, last))
	}
}

// Show implements conversation.Publisher.
func (p *Publisher) Show(key conversation.SessionKey, epoch conversation.Epoch, after conversation.Seq, e conversation.Ephemeral) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown == nil {
		p.shown = map[conversation.SessionKey][]Shown{}
	}
	p.shown[key] = append(p.shown[key], Shown{Epoch: epoch, After: after, What: e})
}

// Audience implements conversation.Publisher.
func (p *Publisher) Audience(root conversation.SessionKey, _ conversation.Epoch, now conversation.Summary) {
	p.mu.Lock()
	asked := p.Asked
	p.mu.Unlock()
	for _, user := range asked {
		p.Journal.Add(fmt.Sprint("audience ", root.Session, " ", user, " ", now.Reads(user)))
	}
}

// Gone implements conversation.Publisher.
func (p *Publisher) Gone(key conversation.SessionKey, _ string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = append(p.gone, key)
}

// Events returns the published events of a session, in order.
func (p *Publisher) Events(key conversation.SessionKey) []conversation.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.events[key])
}

// Shown returns the ephemeral things that were shown of a session, in order.
func (p *Publisher) Shown(key conversation.SessionKey) []Shown {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.shown[key])
}

// Erased returns the sessions that were reported as gone.
func (p *Publisher) Erased() []conversation.SessionKey {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.gone)
}

// Model is a model that says what the test says. With Auto it answers by itself.
type Model struct {
	Name    string
	Journal *Journal // gets "model <step>.<attempt>"; may be nil
	// Auto answers a request at once; nil leaves every call to the test.
	Auto func(conversation.Request) []conversation.Item

	mu    sync.Mutex
	calls []*ModelCall
}

var _ conversation.Model = (*Model)(nil)

// ModelCall is one model call that a test may answer.
type ModelCall struct {
	Request conversation.Request
	outputs chan output
	mu      sync.Mutex
	over    bool
}

type output struct {
	out conversation.Output
	err error
	cut bool
}

// Label implements conversation.Model.
func (m *Model) Label() string { return m.Name }

// Stream implements conversation.Model.
func (m *Model) Stream(ctx context.Context, r conversation.Request) iter.Seq2[conversation.Output, error] {
	return func(yield func(conversation.Output, error) bool) {
		m.Journal.Add("model " + strconv.Itoa(int(r.Step)) + "." + strconv.Itoa(r.Attempt))
		c := &ModelCall{Request: r, outputs: make(chan output, 64)}
		defer c.end()
		m.mu.Lock()
		m.calls = append(m.calls, c)
		m.mu.Unlock()
		if m.Auto != nil {
			c.Answer(m.Auto(r)...)
		}
		for {
			select {
			case <-ctx.Done():
				yield(conversation.Output{}, ctx.Err())
				return
			case o := <-c.outputs:
				if o.cut || !yield(o.out, o.err) || o.err != nil || o.out.Done != nil {
					return
				}
			}
		}
	}
}

// Calls is every call so far, ended or not.
func (m *Model) Calls() []*ModelCall {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.calls)
}

// Open is the calls that have not ended.
func (m *Model) Open() []*ModelCall {
	return slices.DeleteFunc(m.Calls(), (*ModelCall).Over)
}

func (c *ModelCall) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
}

// Over is true when the call has ended: answered, failed or cancelled.
func (c *ModelCall) Over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}

// Delta streams text of an item.
func (c *ModelCall) Delta(item int, text string) {
	c.outputs <- output{out: conversation.Output{Item: item, Delta: text}}
}

// Answer ends the call with an answer of these items.
func (c *ModelCall) Answer(items ...conversation.Item) {
	c.outputs <- output{out: conversation.Output{Done: &conversation.ModelAnswer{
		Items: items, Usage: conversation.Usage{InputTokens: 10, OutputTokens: 5},
	}}}
}

// Fail ends the call with an error.
func (c *ModelCall) Fail(err error) { c.outputs <- output{err: err} }

// Cut ends the stream without a terminal piece.
func (c *ModelCall) Cut() { c.outputs <- output{cut: true} }

// Text is a text item.
func Text(text string) conversation.Item {
	return conversation.Item{Kind: conversation.ItemText, Text: text}
}

// Streamed is a text item of which deltas were shown.
func Streamed(text string) conversation.Item {
	return conversation.Item{Kind: conversation.ItemText, Text: text, Streamed: true}
}

// Use is a call of a tool; args is JSON.
func Use(id, tool, args string) conversation.Item {
	return conversation.Item{Kind: conversation.ItemCall, ID: id, Tool: tool, Args: args}
}

// Tool is a tool that does what the test says.
type Tool struct {
	Is conversation.ToolSpec
	Do func(ctx context.Context, c conversation.ToolCall) (string, error)

	mu   sync.Mutex
	runs int
}

var _ conversation.Tool = (*Tool)(nil)

// Spec implements conversation.Tool.
func (t *Tool) Spec() conversation.ToolSpec { return t.Is }

// Check implements conversation.Tool.
func (t *Tool) Check(json.RawMessage) error { return nil }

// Run implements conversation.Tool.
func (t *Tool) Run(ctx context.Context, c conversation.ToolCall) (string, error) {
	t.mu.Lock()
	t.runs++
	t.mu.Unlock()
	return t.Do(ctx, c)
}

// Runs counts the runs so far.
func (t *Tool) Runs() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.runs
}
