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

// Outcome is what became of a call of a server's tool.
type Outcome string

// The outcomes. Names of a closed set: fit for a metric's label.
const (
	CallOK          Outcome = "ok"
	CallError       Outcome = "error"       // the server or its tool says what was wrong
	CallUnavailable Outcome = "unavailable" // not made: the server is not connected, or does not have the tool any more
	CallUnanswered  Outcome = "unanswered"  // the connection was lost; nobody knows what came of it
	CallTimeout     Outcome = "timeout"
	CallCancelled   Outcome = "cancelled"
)

// Outcomes are all outcomes.
func Outcomes() []Outcome {
	return []Outcome{CallOK, CallError, CallUnavailable, CallUnanswered, CallTimeout, CallCancelled}
}

// Status is what is known of a server, for doctor and metrics. No secret is in it.
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

	Calls map[Outcome]int // of its tools, so far; one that was refused for its arguments is none

	Tools   []string // that it brought: names as models know them, in this run
	Missing []string // tools that the configuration names and the server does not have, by its names
	Refused []string // tools that cannot be used, each with the reason
	Gone    []string // of Tools, those that the server no longer has
	Changed []string // of Tools, those that the server describes in another way by now
	Later   []string // tools of the server that there will be after the next start, by its names
}

// fallback is the version that a server is asked for that did not answer to the
// newest one: some stay silent to what they do not know.
const fallback = "2025-11-25"

// refreshEvery is the least time between two readings of a changed list.
const refreshEvery = time.Second

// server is a configured server: it owns the connection and remakes it.
type server struct {
	Server
	o   *Options
	log *slog.Logger
	// dial makes the transport of one attempt, and what leaves its secrets out.
	dial func() (line, redactor, error)

	settled chan struct{} // the first attempt is over
	cancel  context.CancelFunc
	done    chan struct{}

	mu     sync.Mutex
	status Status
	link   *link
	redact redactor
	found  map[string]found  // what the server has, by its names; nil = never listed
	mine   map[string]*tool  // what it brought, by its names; nil before Open is over
	refuse map[string]string // what the server has that cannot be used, and why
	clash  map[string]string // and what has no name of its own; set once
	calls  map[Outcome]int
}

// found is a tool of a server that may be used.
type found struct {
	description string
	contract    contract
	print       [sha256.Size]byte
}

func newServer(c Server, o *Options) *server {
	s := &server{
		Server: c, o: o, log: o.Logger.With("mcp", c.Name),
		settled: make(chan struct{}), done: make(chan struct{}), calls: map[Outcome]int{},
		status: Status{Name: c.Name, Kind: "stdio", Target: filepath.Base(c.Command), State: StateConnecting, Since: time.Now()},
	}
	s.dial = s.dialProcess
	if c.URL != "" {
		s.dial = s.dialEndpoint
		s.status.Kind, s.status.Target = "http", target(c.URL)
	}
	return s
}

// target is an address as it may be shown: its path and query may hold keys.
func target(template string) string {
	u, err := url.Parse(reference.ReplaceAllString(template, "_"))
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

func (s *server) dialProcess() (line, redactor, error) {
	env, secrets, err := environment(&s.Server, s.o.Lookup)
	if err != nil {
		return nil, redactor{}, err
	}
	redact := newRedactor(secrets)
	return newProcess(&s.Server, env, s.o.Limits, s.log, redact), redact, nil
}

func (s *server) dialEndpoint() (line, redactor, error) {
	e, secrets, err := newEndpoint(&s.Server, s.o.Limits, s.o.Lookup)
	if err != nil {
		return nil, redactor{}, err
	}
	if e.url.Scheme == "http" && len(secrets) > 0 && !loopback(e.url.Hostname()) {
		s.log.Warn("secrets go to an MCP server without encryption")
	}
	// Errors of HTTP quote the address.
	return e, newRedactor(append(secrets, e.url.String())), nil
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
			s.settle()
			s.log.Info("an MCP server is connected", "tools", len(s.known()))
			err = s.serve(ctx, l)
			s.drop()
			if fate := l.close(s.o.Limits.StopGrace); fate != "" && ctx.Err() == nil {
				err = fmt.Errorf("it ended: %s", fate)
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
			s.settle()
			return
		}
		wait := backoff(s.o.Limits, failures)
		failures++
		reason := s.reason(err)
		s.set(func(st *Status) { st.State, st.Err, st.Retry = StateWaiting, reason, time.Now().Add(wait) })
		s.settle()
		s.log.Warn("an MCP server is not connected", "err", reason, "retry_in", wait)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// backoff is the wait after so many failures in a row.
func backoff(l Limits, failures int) time.Duration {
	wait := l.BackoffMax
	if failures < 32 && l.BackoffMin<<failures > 0 {
		wait = min(wait, l.BackoffMin<<failures)
	}
	return wait - rand.N(wait/2+1)
}

// connect makes a connection and reads the tools.
func (s *server) connect(ctx context.Context, protocol string) (*link, error) {
	ln, redact, err := s.dial()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.redact = redact
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, s.ConnectTimeout)
	defer cancel()
	l, err := open(ctx, ln, protocol)
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
	s.link = l
	s.mu.Unlock()
	s.set(func(st *Status) {
		st.State, st.Connects, st.Protocol, st.Server = StateConnected, st.Connects+1, version, short(redact.clean(name))
	})
	return l, nil
}

// serve waits for the end of a connection and reads the tools anew when they change.
func (s *server) serve(ctx context.Context, l *link) error {
	pause := time.NewTimer(0)
	defer pause.Stop()
	<-pause.C
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.lost:
			return l.err
		case <-l.changed:
		}
		call, cancel := context.WithTimeout(ctx, s.ConnectTimeout)
		if err := s.refresh(call, l); err != nil && ctx.Err() == nil {
			s.log.Warn("the tools of an MCP server cannot be listed", "err", s.reason(err))
		}
		cancel()
		s.set(func(*Status) {})
		pause.Reset(refreshEvery) // a server that says so all the time is not asked all the time
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.lost:
			return l.err
		case <-pause.C:
		}
	}
}

func (s *server) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.link = nil
}

func (s *server) settle() {
	select {
	case <-s.settled:
	default:
		close(s.settled)
	}
}

// refresh reads what tools the server has.
func (s *server) refresh(ctx context.Context, l *link) error {
	list, more, err := l.tools(ctx, s.o.Limits.Tools)
	if err != nil {
		return err
	}
	has, refuse := map[string]found{}, map[string]string{}
	if more {
		refuse["…"] = fmt.Sprintf("it has more than %d tools", s.o.Limits.Tools)
	}
	for _, t := range list {
		if !s.allows(t.Name) || t.Name == "" {
			continue
		}
		c, err := newContract(t.InputSchema, s.o.Limits.Schema)
		if err != nil {
			refuse[t.Name] = err.Error()
			continue
		}
		f := found{description: s.describe(t), contract: c}
		f.print = sha256.Sum256(append(append([]byte(f.description), 0), c.shown...))
		has[t.Name] = f
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found, s.refuse = has, refuse
	return nil
}

// describe is what a model is told of a tool.
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

// printable is a text without control characters.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			return -1
		}
		return r
	}, text)
}

// known are the names of what the server has, in order.
func (s *server) known() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sorted(s.found)
}

// sessionID is how the library tells of session ids, which are as good as keys.
var sessionID = regexp.MustCompile(`(?i)session IDs?:? ("[^"]*"( and "[^"]*")?|[^ ):]+)`)

// reason is an error as it may be logged and shown.
func (s *server) reason(err error) string {
	return short(printable(sessionID.ReplaceAllString(s.cleaner().clean(err.Error()), "session")))
}

func (s *server) cleaner() redactor {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.redact
}

// bring fixes the tools of this run.
func (s *server) bring(tools map[string]*tool, clashes map[string]string) {
	s.mu.Lock()
	s.mine, s.clash = tools, clashes
	s.mu.Unlock()
	s.set(func(*Status) {})
	st := s.current()
	for what, list := range map[string][]string{"refused": st.Refused, "missing": st.Missing} {
		if len(list) > 0 {
			s.log.Warn("not all tools of an MCP server can be used", what, list)
		}
	}
}

// reach is what a call goes over; an error is for the model.
func (s *server) reach(name string) (*link, redactor, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link == nil {
		return nil, s.redact, fmt.Errorf("the server %s is not connected at the moment", s.Name)
	}
	if _, ok := s.found[name]; !ok {
		return nil, s.redact, fmt.Errorf("the server %s does not have this tool any more", s.Name)
	}
	return s.link, s.redact, nil
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
	s.mu.Unlock()
	if s.o.OnStatus != nil {
		s.o.OnStatus(st)
	}
}

// compare says how what the server has differs from what it brought.
func (s *server) compare() {
	st := &s.status
	st.Tools, st.Missing, st.Refused, st.Gone, st.Changed, st.Later = nil, nil, nil, nil, nil, nil
	for _, name := range sorted(s.mine) {
		t := s.mine[name]
		st.Tools = append(st.Tools, t.spec.Name)
		if s.found == nil {
			continue
		}
		if f, ok := s.found[name]; !ok {
			st.Gone = append(st.Gone, t.spec.Name)
		} else if f.print != t.print {
			st.Changed = append(st.Changed, t.spec.Name)
		}
	}
	for _, reasons := range []map[string]string{s.refuse, s.clash} {
		for _, name := range sorted(reasons) {
			st.Refused = append(st.Refused, short(printable(s.redact.clean(name+": "+reasons[name]))))
		}
	}
	if s.found == nil {
		return
	}
	for _, name := range s.named() {
		if _, ok := s.found[name]; !ok && s.refuse[name] == "" {
			st.Missing = append(st.Missing, name)
		}
	}
	if s.mine == nil {
		return
	}
	for _, name := range sorted(s.found) {
		if s.mine[name] == nil && s.clash[name] == "" {
			st.Later = append(st.Later, name)
		}
	}
}

func (s *server) copyStatus() Status {
	st := s.status
	st.Calls = maps.Clone(s.calls)
	for _, list := range []*[]string{&st.Tools, &st.Missing, &st.Refused, &st.Gone, &st.Changed, &st.Later} {
		*list = slices.Clone(*list)
	}
	return st
}
