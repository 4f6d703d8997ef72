package slacktest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// Credentials of every workspace, and who is in it.
const (
	BotToken      = "xoxb-secret-bot-token"
	AppToken      = "xapp-secret-app-token"
	SigningSecret = "secret-of-signatures"
	Bot           = "UBOT0" // the bot as a user
	BotID         = "BBOT0"
	Team          = "T001"
	Channel       = "C001" // #general
	Direct        = "D001" // Anna and the bot
	Anna          = "UANNA"
	Ben           = "UBEN0"
	Mallory       = "UMALL" // in no list of names
)

// allScopes are those that a bot needs.
const allScopes = "chat:write,app_mentions:read,channels:history,im:history,reactions:write,commands,users:read,groups:history,mpim:history"

// Workspace is a workspace with one bot. Its methods may be called from any goroutine.
type Workspace struct {
	server *httptest.Server
	client http.Client
	stop   context.CancelFunc
	ctx    context.Context
	wg     sync.WaitGroup

	mu       sync.Mutex // guards the rest
	changed  chan struct{}
	clock    int64 // the last message's ts, in microseconds
	counter  int   // of envelopes, triggers and tickets
	written  []*Written
	whispers []Whisper
	scopes   string
	closed   map[string]string // channel → the error for who writes there
	faults   map[string][]Mishap
	requests map[string]int
	pending  []*envelope
	conns    map[*websocket.Conn]bool
	tickets  map[string]bool
	opened   int
	target   string // of the Events API; "" = Socket Mode
	deaf     bool   // new connections are closed at once
	posting  bool   // the goroutine that sends requests is at work
	statuses []int
}

// Written is a message in a channel.
type Written struct {
	Channel, TS, Thread, User, Text string
	Blocks                          []map[string]any
	Metadata                        map[string]any
	Form                            map[string]string // as the bot sent it
	Reactions                       []string          // of the bot
	Edited                          int
	Deleted                         bool
}

// Whisper is an answer that only one person sees.
type Whisper struct {
	Path string // of the response_url
	Body map[string]any
}

// Mishap is what goes wrong with one request.
type Mishap struct {
	Code       string // {"ok": false, "error": Code}
	Needed     string // with missing_scope
	Status     int    // of HTTP
	RetryAfter int    // seconds, with 429
	Cut        bool   // the connection is cut instead of an answer
	Done       bool   // what was asked for is done all the same
	Garbage    bool   // the answer is no JSON
	Wait       chan struct{}
}

// envelope is something that is delivered until it is acknowledged.
type envelope struct {
	id, kind string
	payload  any
	attempts int
	acked    bool
}

// New starts a workspace. Close it.
func New() *Workspace {
	ctx, stop := context.WithCancel(context.Background())
	w := &Workspace{
		ctx: ctx, stop: stop, changed: make(chan struct{}), clock: time.Now().UnixMicro(), scopes: allScopes,
		closed: map[string]string{}, faults: map[string][]Mishap{}, requests: map[string]int{},
		conns: map[*websocket.Conn]bool{}, tickets: map[string]bool{},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/api/", w.serve)
	mux.HandleFunc("/link/", w.link)
	mux.HandleFunc("/commands/", w.whisper)
	w.server = httptest.NewServer(mux)
	w.client.Timeout = 10 * time.Second
	return w
}

// Close ends all connections.
func (w *Workspace) Close() {
	w.stop()
	w.Drop()
	w.server.CloseClientConnections()
	w.server.Close()
	w.wg.Wait()
	w.client.CloseIdleConnections()
}

// APIURL is what a bot is told as its api_url.
func (w *Workspace) APIURL() string { return w.server.URL + "/api/" }

// SendTo makes the workspace send events to a URL, as the Events API does, and not by Socket Mode.
func (w *Workspace) SendTo(url string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.target = url
}

// Fail lets the next request of a method fail; called again, the one after it. The methods
// are those of the Web API, "link" is the opening of a Socket Mode connection, "commands"
// an answer that only one person sees.
func (w *Workspace) Fail(method string, faults ...Mishap) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults[method] = append(w.faults[method], faults...)
}

// Scopes sets the scopes of the bot token, with commas between.
func (w *Workspace) Scopes(s string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.scopes = s
}

// Shut makes all that the bot writes in a channel fail: "is_archived", "not_in_channel"; "" = open.
func (w *Workspace) Shut(channel, code string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed[channel] = code
}

// Deaf makes the workspace close Socket Mode connections as soon as they are open.
func (w *Workspace) Deaf(deaf bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deaf = deaf
}

// Await waits until ok is true, and looks whenever anything has changed. It is false when ctx
// ends before.
func (w *Workspace) Await(ctx context.Context, ok func() bool) bool {
	for {
		w.mu.Lock()
		changed := w.changed
		w.mu.Unlock()
		if ok() {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// Poke lets Await look once more, for what a test waits for besides.
func (w *Workspace) Poke() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.touch()
}

// touch says that something has changed. The caller holds mu.
func (w *Workspace) touch() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// Written lists the messages of a channel, oldest first, those of the bot only if of is Bot.
func (w *Workspace) Written(channel, of string) []Written {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []Written
	for _, m := range w.written {
		if m.Channel == channel && !m.Deleted && (of == "" || m.User == of) {
			one := *m
			one.Reactions = slices.Clone(m.Reactions)
			all = append(all, one)
		}
	}
	return all
}

// Whispers lists the answers that only one person sees.
func (w *Workspace) Whispers() []Whisper {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.whispers)
}

// Requests counts the requests of a method.
func (w *Workspace) Requests(method string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.requests[method]
}

// Pending counts what was delivered and not acknowledged, or not yet delivered.
func (w *Workspace) Pending() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.waiting())
}

// Statuses are the answers to the requests of the Events API, in order; 0 = there was none.
func (w *Workspace) Statuses() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.statuses)
}

// Connections counts the Socket Mode connections that were ever opened, and those open now.
func (w *Workspace) Connections() (ever, now int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.opened, len(w.conns)
}

// waiting lists what is not acknowledged. The caller holds mu.
func (w *Workspace) waiting() []*envelope {
	return slices.DeleteFunc(slices.Clone(w.pending), func(e *envelope) bool { return e.acked })
}

// next is a number that was not used before. The caller holds mu.
func (w *Workspace) next() int {
	w.counter++
	return w.counter
}

// ts names a new message. The caller holds mu.
func (w *Workspace) ts() string {
	w.clock = max(w.clock+1, time.Now().UnixMicro())
	return fmt.Sprintf("%d.%06d", w.clock/1e6, w.clock%1e6)
}

// find is a message; nil = it is not there. The caller holds mu.
func (w *Workspace) find(channel, ts string) *Written {
	for _, m := range w.written {
		if m.Channel == channel && m.TS == ts && !m.Deleted {
			return m
		}
	}
	return nil
}

// channelType is how Slack calls a kind of channel.
func channelType(channel string) string {
	switch {
	case strings.HasPrefix(channel, "D"):
		return "im"
	case strings.HasPrefix(channel, "G"):
		return "mpim"
	}
	return "channel"
}

// object is JSON.
type object = map[string]any

func encoded(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // the objects of this package have a JSON form
	}
	return b
}
