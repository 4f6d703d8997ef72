package mcp

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/url"
	"parley/tools/mcp/secret"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// State is where a server's connection stands.
type State string

// The states. Names of a closed set: fit for a metric's label.
const (
	StateConnecting State = "connecting"
	StateConnected  State = "connected"
	StateWaiting    State = "waiting" // for the next attempt
	StateClosed     State = "closed"
)

// Outcome is the result of a call of a server's tool.
type Outcome string

// The outcomes. Names of a closed set: fit for a metric's label.
const (
	CallOK          Outcome = "ok"
	CallError       Outcome = "error"       // the server or its tool says what was wrong
	CallUnavailable Outcome = "unavailable" // not made: the server is not connected, or does not have the tool any more
	CallUnanswered  Outcome = "unanswered"  // the connection was lost; whether the call was carried out is not known
	CallTimeout     Outcome = "timeout"
	CallCancelled   Outcome = "cancelled"
)

// Outcomes are all outcomes.
func Outcomes() []Outcome {
	return []Outcome{CallOK, CallError, CallUnavailable, CallUnanswered, CallTimeout, CallCancelled}
}

// Status describes a server and its connection, for doctor and metrics. No secret is
// in it.
type Status struct {
	Name     string
	Kind     string // "stdio" or "http"
	Target   string // the program's name, or the address without its query
	State    State
	Since    time.Time // of State
	Retry    time.Time // of StateWaiting: when the next attempt begins
	Attempts int       // to connect, since Open
	Connects int       // attempts that succeeded
	Err      string    // why it is not connected, or why it was not before; "" = never was a failure
	Protocol string    // the version agreed on
	Server   string    // what the server calls itself

	Forms map[string]int  // that the user was asked to fill in, so far, by what came of them: accept, decline, cancel
	Calls map[Outcome]int // of its tools, so far; one that was refused for its arguments is none

	Resources, Prompts         int      // that it listed last
	ResourceNames, PromptNames []string // some of them

	Tools   []string // that it brought: names as models know them, in this run
	Missing []string // tools that the configuration names and the server does not have, by its names
	Refused []string // tools that cannot be used, each with the reason
	Gone    []string // of Tools, those that the server no longer has
	Changed []string // of Tools, those that the server describes in another way by now
}

// fallback is the version that is tried with a server that did not answer to the
// newest one: some servers do not answer to a version that they do not know.
const fallback = "2025-11-25"

// refreshEvery is the least time between two readings of a changed list.
const refreshEvery = time.Second

// server is a configured server: it owns the connection and remakes it.
type server struct {
	Server
	o      *Options
	log    *slog.Logger
	listed func() // called when the tools have been read
	// dial makes the transport of one attempt, and the redactor of its secrets.
	dial func() (transport, redactor, error)

	firstAttempt chan struct{} // closed when the first attempt has ended
	cancel       context.CancelFunc
	done         chan struct{}

	mu          sync.Mutex
	status      Status
	moved       chan struct{} // closed, and made anew, when the status changes
	conn        *connection
	redact      redactor
	available   map[string]remoteTool // the tools that the server has now, by its names; nil = never listed
	tools       map[string]*tool      // the tools of this run, by its names
	unusable    map[string]string     // why a tool of the server cannot be used, by its names
	nameClashes map[string]string     // and why one has no name of its own, or may not join
	calls       map[Outcome]int
	forms       map[string]int

	said map[string][]string // what the log has said of tools that cannot be used; of addTools
}

// remoteTool is a tool that a server has and that may be used.
type remoteTool struct {
	description string
	schema      argSchema
	fingerprint [sha256.Size]byte
	read        reader // of a tool of ours; nil: the server's own
}

func newRemoteTool(description string, schema argSchema, read reader) remoteTool {
	f := remoteTool{description: description, schema: schema, read: read}
	f.fingerprint = sha256.Sum256(append(append([]byte(f.description), 0), schema.shown...))
	return f
}

func newServer(c Server, o *Options) *server {
	s := &server{
		Server: c, o: o, log: o.Logger.With("mcp", c.Name),
		firstAttempt: make(chan struct{}), done: make(chan struct{}), calls: map[Outcome]int{}, forms: map[string]int{}, moved: make(chan struct{}), listed: func() {},
		tools: map[string]*tool{}, nameClashes: map[string]string{}, said: map[string][]string{},
		status: Status{Name: c.Name, Kind: "stdio", Target: filepath.Base(c.Command), State: StateConnecting, Since: time.Now()},
	}
	s.dial = s.dialProcess
	if c.URL != "" {
		s.dial = s.dialEndpoint
		s.status.Kind, s.status.Target = "http", target(c.URL)
	}
	return s
}

// target returns an address as it may be shown: its path and query may hold keys.
func target(template string) string {
	u, err := url.Parse(secret.Replace(template, func(secret.Reference) string { return "_" }))
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

func (s *server) dialProcess() (transport, redactor, error) {
	env, secrets, err := environment(&s.Server, s.o.Lookup)
	if err != nil {
		return nil, redactor{}, err
	}
	redact := newRedactor(secrets)
	return newProcess(&s.Server, env, s.o.Limits, s.log, redact), redact, nil
}

func (s *server) dialEndpoint() (transport, redactor, error) {
	e, secrets, err := newEndpoint(&s.Server, s.o.Limits, s.o.Lookup)
	if err != nil {
		return nil, redactor{}, err
	}
	if e.url.Scheme == "http" && len(secrets) > 0 && !loopback(e.url.Hostname()) {
		s.log.Warn("secrets go to an MCP server without encryption")
	}
	if whole := e.url.String(); hosts(whole) != whole {
		secrets = append(secrets, whole)
	}
	return e, newRedactor(secrets), nil
}

// start runs the server until close.
func (s *server) start() {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	go func() {
		defer close(s.done)
		s.run(ctx)
	}()
}

func (s *server) close() {
	s.cancel()
	<-s.done
}

// run connects, serves and waits, over and over.
func (s *server) run(ctx context.Context) {
	defer s.set(func(st *Status) { st.State = StateClosed })
	protocol, failures := s.Protocol, 0
	for {
		s.set(func(st *Status) { st.State, st.Attempts, st.Retry = StateConnecting, st.Attempts+1, time.Time{} })
		l, err := s.connect(ctx, protocol)
		began := time.Now()
		if err == nil {
			s.endFirstAttempt()
			st := s.current()
			s.log.Info("an MCP server is connected", "tools", len(s.toolNames()), "resources", st.Resources, "prompts", st.Prompts)
			err = s.serve(ctx, l)
			s.forgetConnection()
			if reason := l.close(s.o.Limits.StopGrace); reason != "" && ctx.Err() == nil && !errors.Is(err, errTooLong) {
				err = fmt.Errorf("it ended: %s", reason)
			}
			if time.Since(began) >= s.o.Limits.BackoffMax {
				failures = 0
			}
		} else if errors.Is(err, errNoAnswer) && s.Protocol == "" {
			if protocol == "" {
				protocol = fallback
			} else {
				protocol = ""
			}
		}
		if ctx.Err() != nil {
			s.endFirstAttempt()
			return
		}
		failures++
		if errors.Is(err, errForgotten) && failures == 1 {
			s.log.Info("an MCP server does not know its session any more; a new one begins")
			continue
		}
		wait := backoff(s.o.Limits, failures-1)
		reason := s.reason(err)
		s.set(func(st *Status) { st.State, st.Err, st.Retry = StateWaiting, reason, time.Now().Add(wait) })
		s.endFirstAttempt()
		s.log.Warn("an MCP server is not connected", "error", reason, "retry_in", wait)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// backoff returns the wait after so many failures in a row.
func backoff(l Limits, failures int) time.Duration {
	wait := l.BackoffMax
	if failures < 32 && l.BackoffMin<<failures > 0 {
		wait = min(wait, l.BackoffMin<<failures)
	}
	return wait - rand.N(wait/2+1)
}

// connect makes a connection and reads the tools.
func (s *server) connect(ctx context.Context, protocol string) (*connection, error) {
	t, redact, err := s.dial()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.redact = redact
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, s.ConnectTimeout)
	defer cancel()
	var elicit elicitor
	if s.Elicitation {
		elicit = s.elicit
	}
	l, err := open(ctx, t, protocol, elicit)
	if err != nil {
		return nil, err
	}
	if err := s.refresh(ctx, l); err != nil {
		l.close(s.o.Limits.StopGrace)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%w: %w", errNoAnswer, ctx.Err())
		}
		return nil, fmt.Errorf("its tools cannot be listed: %w", err)
	}
	version, name := l.protocol()
	s.mu.Lock()
	s.conn = l
	s.mu.Unlock()
	s.listed()
	s.set(func(st *Status) {
		st.State, st.Connects, st.Protocol, st.Server = StateConnected, st.Connects+1, version, excerpt(redact.clean(name))
	})
	return l, nil
}

// serve waits for the end of a connection and reads the tools anew when they change.
func (s *server) serve(ctx context.Context, l *connection) error {
	pause := time.NewTimer(0)
	defer pause.Stop()
	<-pause.C
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.disconnected:
			return l.err
		case <-l.changed:
		}
		call, cancel := context.WithTimeout(ctx, s.ConnectTimeout)
		if err := s.refresh(call, l); err != nil && ctx.Err() == nil {
			s.log.Warn("the tools of an MCP server cannot be listed", "error", s.reason(err))
		}
		cancel()
		s.listed()
		s.set(func(*Status) {})
		pause.Reset(refreshEvery) // a server may send such notes all the time
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.disconnected:
			return l.err
		case <-pause.C:
		}
	}
}

func (s *server) forgetConnection() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn = nil
}

func (s *server) endFirstAttempt() {
	select {
	case <-s.firstAttempt:
	default:
		close(s.firstAttempt)
	}
}

// refresh reads the list of tools from the server.
func (s *server) refresh(ctx context.Context, l *connection) error {
	list, more, err := l.tools(ctx, s.o.Limits.Tools)
	if err != nil {
		return err
	}
	has, refuse := map[string]remoteTool{}, map[string]string{}
	if more {
		refuse["…"] = fmt.Sprintf("it has more than %d tools", s.o.Limits.Tools)
	}
	for _, t := range list {
		if !s.allows(t.Name) || t.Name == "" {
			continue
		}
		c, err := newArgSchema(t.InputSchema, s.o.Limits.Schema)
		if err != nil {
			refuse[t.Name] = err.Error()
			continue
		}
		has[t.Name] = newRemoteTool(s.describe(t), c, nil)
	}
	for name, ours := range s.readingTools(l) {
		if _, own := has[name]; own {
			refuse["our "+name] = "the server has a tool of this name"
		} else {
			has[name] = ours
		}
	}
	resources, prompts := s.lookAround(ctx, l)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.available, s.unusable = has, refuse
	s.status.Resources, s.status.ResourceNames = len(resources.lines), resources.shown(s.redact)
	s.status.Prompts, s.status.PromptNames = len(prompts.lines), prompts.shown(s.redact)
	return nil
}

// describe makes the description of a tool that models are shown.
func (s *server) describe(t *sdk.Tool) string {
	text := t.Description
	for _, other := range []string{t.Title, "The tool " + t.Name + " of the server " + s.Name + "."} {
		if strings.TrimSpace(text) == "" {
			text = other
		}
	}
	text = strings.TrimSpace(printable(s.cleaner().clean(text)))
	if limit := s.o.Limits.Description; len(text) > limit {
		const mark = "…"
		text = strings.ToValidUTF8(text[:max(limit-len(mark), 0)], "") + mark
	}
	return text
}

// printable removes control characters from a text.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			return -1
		}
		return r
	}, text)
}

// toolNames returns the names of the tools that the server has, in order.
func (s *server) toolNames() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sorted(s.available)
}

// sessionID matches session ids in errors of the library. A session id is as good as
// a key.
var sessionID = regexp.MustCompile(`(?i)session IDs?:? ("[^"]*"( and "[^"]*")?|[^ ):]+)`)

// reason returns an error as it may be logged and shown.
func (s *server) reason(err error) string {
	return excerpt(printable(sessionID.ReplaceAllString(s.cleaner().clean(hosts(err.Error())), "session")))
}

func (s *server) cleaner() redactor {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.redact
}

// unseen returns the tools that the server has now and that are neither a tool of this
// run nor refused one.
func (s *server) unseen() map[string]remoteTool {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := maps.Clone(s.available)
	maps.DeleteFunc(all, func(name string, _ remoteTool) bool { return s.tools[name] != nil || s.nameClashes[name] != "" })
	return all
}

// addTools adds to the tools of this run, and says why others are not there.
func (s *server) addTools(tools map[string]*tool, clashes map[string]string) {
	s.mu.Lock()
	maps.Copy(s.tools, tools)
	maps.Copy(s.nameClashes, clashes)
	s.mu.Unlock()
	s.set(func(*Status) {})
	st := s.current()
	const unusable, other = "not all tools of an MCP server can be used", "tools of an MCP server are not what they were; they keep their meaning until the next start"
	for _, of := range []struct {
		what, message string
		list          []string
	}{{"refused", unusable, st.Refused}, {"missing", unusable, st.Missing}, {"gone", other, st.Gone}, {"changed", other, st.Changed}} {
		if said := s.said[of.what]; len(of.list) > 0 && !slices.Equal(said, of.list) {
			s.log.Warn(of.message, of.what, of.list)
		}
		s.said[of.what] = of.list
	}
}

// connectionFor returns the connection for a call of the tool. Its error is written
// for the model.
func (s *server) connectionFor(name string) (*connection, redactor, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		return nil, s.redact, fmt.Errorf("the server %s is not connected at the moment", s.Name)
	}
	if _, ok := s.available[name]; !ok {
		return nil, s.redact, fmt.Errorf("the server %s does not have this tool any more", s.Name)
	}
	return s.conn, s.redact, nil
}

// connectionAfter waits for the connection that follows old, as long as one is being
// made. Its error is written for the model.
func (s *server) connectionAfter(ctx context.Context, name string, old *connection) (*connection, redactor, error) {
	for {
		s.mu.Lock()
		trying := s.conn == old || s.conn == nil && (s.status.State == StateConnecting || s.status.State == StateConnected)
		moved := s.moved
		s.mu.Unlock()
		if !trying {
			return s.connectionFor(name)
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return nil, redactor{}, ctx.Err()
		}
	}
}

func (s *server) count(o Outcome) {
	s.mu.Lock()
	s.calls[o]++
	s.mu.Unlock()
}

func (s *server) current() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.copyStatus()
}

// set changes the status and shows it.
func (s *server) set(change func(*Status)) {
	s.mu.Lock()
	before := s.status.State
	change(&s.status)
	if s.status.State != before {
		s.status.Since = time.Now()
	}
	s.compare()
	st := s.copyStatus()
	close(s.moved)
	s.moved = make(chan struct{})
	s.mu.Unlock()
	if s.o.OnStatus != nil {
		s.o.OnStatus(st)
	}
}

// compare writes into the status how the tools that the server has now differ from
// the tools of this run.
func (s *server) compare() {
	st := &s.status
	st.Tools, st.Missing, st.Refused, st.Gone, st.Changed = nil, nil, nil, nil, nil
	for _, name := range sorted(s.tools) {
		t := s.tools[name]
		st.Tools = append(st.Tools, t.spec.Name)
		if s.available == nil {
			continue
		}
		if f, ok := s.available[name]; !ok {
			st.Gone = append(st.Gone, t.spec.Name)
		} else if f.fingerprint != t.fingerprint {
			st.Changed = append(st.Changed, t.spec.Name)
		}
	}
	for _, reasons := range []map[string]string{s.unusable, s.nameClashes} {
		for _, name := range sorted(reasons) {
			st.Refused = append(st.Refused, excerpt(printable(s.redact.clean(name+": "+reasons[name]))))
		}
	}
	if s.available == nil {
		return
	}
	for _, name := range s.named() {
		if _, ok := s.available[name]; !ok && s.unusable[name] == "" {
			st.Missing = append(st.Missing, name)
		}
	}
}

func (s *server) copyStatus() Status {
	st := s.status
	st.Calls, st.Forms = maps.Clone(s.calls), maps.Clone(s.forms)
	for _, list := range []*[]string{&st.Tools, &st.Missing, &st.Refused, &st.Gone, &st.Changed, &st.ResourceNames, &st.PromptNames} {
		*list = slices.Clone(*list)
	}
	return st
}
