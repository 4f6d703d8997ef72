package conform

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"parley/cmd/parley-bench/internal/load"
)

// Conform is the command; its fields are its flags.
type Conform struct {
	Server   string        `help:"The server's program (default: it is built)." placeholder:"PATH"`
	URL      string        `help:"A server that runs, with the scripted model and without sign-in, instead of a program." placeholder:"URL"`
	Only     []string      `help:"These cases only, by the beginning of their names." placeholder:"NAME"`
	Seed     uint64        `help:"Of all that is random (default: another one each time)." placeholder:"N"`
	Patience time.Duration `help:"How long a client may take for a case." default:"60s"`
	Parallel int           `help:"Cases at a time." default:"4"`
	Client   []string      `arg:"" help:"The command that starts the client: see the documentation in docs/CLIENTS.md." placeholder:"COMMAND"`
}

// Validate refuses cases that there are not.
func (c *Conform) Validate() error {
	wrong := errors.Join(load.AtLeast("patience", c.Patience, time.Second), load.AtLeast("parallel", c.Parallel, 1))
	for _, name := range c.Only {
		if !slices.ContainsFunc(trials(), func(t trial) bool { return strings.HasPrefix(t.name, name) }) {
			wrong = errors.Join(wrong, fmt.Errorf("--only: there is no case %q", name))
		}
	}
	return wrong
}

// Run tries the client in each case and prints a table to standard output.
func (c *Conform) Run(ctx context.Context) error { return c.run(ctx, os.Stdout) }

// settings make a server show soon what takes long elsewhere; its limits are the usual ones.
var settings = []string{
	"gateway.heartbeat=500ms", "gateway.read_deadline=20s", "scripted.token_delay=1ms",
	"limits.commands_per_second=20", "limits.commands_burst=40",
}

func (c *Conform) run(ctx context.Context, out io.Writer) error {
	if c.Seed == 0 {
		c.Seed = uint64(time.Now().UnixNano()) //nolint:gosec // a time is not negative
	}
	server, cleanup, err := c.start()
	if err != nil {
		return err
	}
	defer cleanup()
	all := slices.DeleteFunc(trials(), func(t trial) bool { return !c.wanted(t) })
	results := make([]result, len(all))
	places := make(chan struct{}, c.Parallel)
	var work sync.WaitGroup
	for i, t := range all {
		work.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			if ctx.Err() == nil {
				results[i] = c.try(ctx, server, t)
			}
		})
	}
	work.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	failed := c.print(out, all, results)
	if len(failed) > 0 {
		return fmt.Errorf("%d of %d cases failed: %s", len(failed), len(all), strings.Join(failed, ", "))
	}
	return nil
}

func (c *Conform) wanted(t trial) bool {
	return len(c.Only) == 0 || slices.ContainsFunc(c.Only, func(name string) bool { return strings.HasPrefix(t.name, name) })
}

// start gives the server's address.
func (c *Conform) start() (addr string, cleanup func(), err error) {
	if c.URL != "" {
		at, err := url.Parse(c.URL)
		if err != nil || at.Host == "" {
			return "", nil, fmt.Errorf("--url: %q is no address of a server", c.URL)
		}
		return at.Host, func() {}, nil
	}
	program, clean, err := load.BuildServer(c.Server)
	if err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "parley-bench-conform-")
	if err != nil {
		clean()
		return "", nil, err
	}
	s, err := load.Launch{Path: program, Data: filepath.Join(dir, "data"), Set: settings}.Start()
	if err != nil {
		clean()
		_ = os.RemoveAll(dir)
		return "", nil, err
	}
	return s.Addr, func() { s.Kill(); clean(); _ = os.RemoveAll(dir) }, nil
}

// result is what a case has shown.
type result struct {
	wrong       []string
	connections int
	events      int
	messages    int
	took        time.Duration
	errors      string // what the client wrote to its standard error
}

func (c *Conform) print(out io.Writer, all []trial, results []result) (failed []string) {
	fmt.Fprintf(out, "\n### %s\n\n| case | | seen | connections | messages | events | s |\n|---|---|---|---:|---:|---:|---:|\n", strings.Join(c.Client, " "))
	for i, t := range all {
		r, word := results[i], "passed"
		if len(r.wrong) > 0 {
			word = "**FAILED** " + strings.Join(r.wrong, "; ")
			failed = append(failed, t.name)
		}
		fmt.Fprintf(out, "| %s | %s | %s | %d | %d | %d | %.1f |\n", t.name, t.does, word, r.connections, r.messages, r.events, r.took.Seconds())
	}
	for i, t := range all {
		if r := results[i]; len(r.wrong) > 0 && r.errors != "" {
			fmt.Fprintf(out, "\nIn %q the client wrote to its standard error:\n%s\n", t.name, strings.TrimSpace(r.errors))
		}
	}
	again := ""
	for _, name := range failed {
		again += fmt.Sprintf(" --only %q", name)
	}
	if again != "" {
		fmt.Fprintf(out, "\nAgain: parley-bench conform --seed %d%s -- %s\n", c.Seed, again, strings.Join(c.Client, " "))
	} else {
		fmt.Fprintf(out, "\nAll %d cases passed (seed %d).\n", len(all), c.Seed)
	}
	return failed
}

// try holds one case.
func (c *Conform) try(ctx context.Context, server string, t trial) (r result) {
	began := time.Now()
	defer func() { r.took = time.Since(began) }()
	session, err := create(ctx, server)
	if err != nil {
		r.wrong = []string{"the server: " + err.Error()}
		return r
	}
	p, err := newProxy(server, t.fault(), c.Seed)
	if err != nil {
		r.wrong = []string{err.Error()}
		return r
	}
	defer p.close()
	s, err := begin(ctx, c.Client, "http://"+p.at)
	if err != nil {
		r.wrong = []string{"the client does not start: " + err.Error()}
		return r
	}
	h := &hearing{trial: t, proxy: p, client: s, server: server, session: session, deadline: time.Now().Add(c.Patience)}
	h.hold(ctx)
	ended := s.stop()
	if h.failed != nil {
		r.wrong = append(r.wrong, "the server: "+h.failed.Error())
	}
	log, err := events(ctx, server, session)
	if err != nil {
		r.wrong = append(r.wrong, "the server: "+err.Error())
	}
	p.turn.Lock()
	p.mu.Lock()
	tries := len(p.tries)
	p.mu.Unlock()
	r.wrong = append(r.wrong, verdict(t, p, log, h.sent, s.heard(), ended)...)
	p.turn.Unlock()
	r.connections, r.messages, r.events, r.errors = tries, len(h.sent), len(log), s.errors.String()
	return r
}

// hearing is a case that is being held.
type hearing struct {
	trial
	proxy           *proxy
	client          *subject
	server, session string
	deadline        time.Time
	sent            []string
	failed          error // the server's, not the client's
}

func (h *hearing) hold(ctx context.Context) {
	h.client.tell(map[string]any{"follow": h.session})
	h.show(ctx)
	h.say()
	if h.asks {
		h.ask(ctx)
	}
	if !h.wait(ctx, h.caughtUp(ctx)) || h.between == nil {
		return
	}
	h.proxy.turn.Lock()
	h.proxy.turn.Unlock() //nolint:staticcheck // what goes on at the moment ends first
	h.between(h.proxy)
	if h.final != 0 {
		h.wait(ctx, func() bool { return slices.ContainsFunc(h.client.heard(), func(l line) bool { return l.Stopped != 0 }) })
		quiet := time.Now().Add(2 * time.Second)
		h.wait(ctx, func() bool { return time.Now().After(quiet) })
		return
	}
	h.show(ctx)
	if h.quiet {
		h.wait(ctx, func() bool {
			log, err := events(ctx, h.server, h.session)
			return err == nil && settled(log)
		})
		h.proxy.noted("idle")
	} else {
		h.say()
	}
	h.wait(ctx, h.caughtUp(ctx))
}

// another begins the ids of what another device says.
const another = "another-device-"

// show lets another device say something with a file, and then nothing but a file.
func (h *hearing) show(ctx context.Context) {
	if !h.files {
		return
	}
	at := "http://" + h.server + "/api/sessions/" + h.session
	var file struct{ Hash string }
	if err := exchange(ctx, http.MethodPost, at+"/blobs?name=notes.json", `{"of":"us"}`, &file); err != nil {
		h.failed = err
		return
	}
	for _, text := range []string{"/say seen", ""} {
		said, err := json.Marshal(map[string]any{"client_msg_id": another + rand.Text(), "text": text,
			"attachments": []any{map[string]any{"hash": file.Hash}}})
		if err == nil {
			err = exchange(ctx, http.MethodPost, at+"/messages", string(said), &struct{}{})
		}
		h.failed = errors.Join(h.failed, err)
	}
}

// say lets the client send a round of messages.
func (h *hearing) say() {
	n := h.messages
	if n == 0 {
		n = 4
	}
	for range n {
		h.tell(fmt.Sprintf("/say message %d", len(h.sent)), "send", "")
	}
}

func (h *hearing) tell(text, kind, question string) {
	id := fmt.Sprintf("id%d", len(h.sent))
	h.sent = append(h.sent, id)
	if kind == "send" {
		h.client.tell(map[string]any{"send": text, "id": id, "session": h.session})
		return
	}
	h.client.tell(map[string]any{"answer": question, "text": text, "id": id, "session": h.session})
}

// ask lets the client ask for a question, and answer it.
func (h *hearing) ask(ctx context.Context) {
	h.tell("/ask Which? [left/right]", "send", "")
	var question string
	h.wait(ctx, func() bool {
		log, _ := events(ctx, h.server, h.session)
		for _, e := range log {
			if e.Type == "question" {
				question = e.Data.Question
			}
		}
		return question != ""
	})
	if question != "" {
		h.tell("left", "answer", question)
	}
}

// caughtUp is true when everything that was sent is acknowledged and answered, and the
// client has seen the last event.
func (h *hearing) caughtUp(ctx context.Context) func() bool {
	return func() bool {
		told, last := make(map[string]bool), int64(0)
		for _, l := range h.client.heard() {
			if l.Sent != "" {
				told[l.Sent] = true
			}
			if l.Failed != "" {
				told[l.Failed] = true
			}
			if l.Reset != "" {
				last = 0
			}
			last = max(last, l.Seq)
		}
		if len(told) < len(h.sent) {
			return false
		}
		log, err := events(ctx, h.server, h.session)
		return err == nil && settled(log) && last >= int64(len(log))
	}
}

// wait waits until done, at the latest for the case's patience; the client's words and a
// clock make it look again.
func (h *hearing) wait(ctx context.Context, done func() bool) bool {
	clock := time.NewTicker(100 * time.Millisecond)
	defer clock.Stop()
	for !done() {
		if time.Now().After(h.deadline) {
			return false
		}
		select {
		case <-ctx.Done():
			return false
		case <-h.client.exited:
			return false
		case <-clock.C:
		}
	}
	return true
}

func create(ctx context.Context, server string) (session string, err error) {
	var answer struct{ Session string }
	err = exchange(ctx, http.MethodPost, "http://"+server+"/api/sessions", "{}", &answer)
	return answer.Session, err
}

// events is the whole log of a session.
func events(ctx context.Context, server, session string) (log []event, err error) {
	for {
		var page struct {
			Items []event
			Next  json.RawMessage `json:"next_cursor"`
		}
		at := fmt.Sprintf("http://%s/api/sessions/%s/events?since=%d&limit=200", server, session, len(log))
		if err := exchange(ctx, http.MethodGet, at, "", &page); err != nil {
			return log, err
		}
		log = append(log, page.Items...)
		if len(page.Items) == 0 {
			return log, nil
		}
	}
}

func exchange(ctx context.Context, method, at, body string, answer any) error {
	request, err := http.NewRequestWithContext(ctx, method, at, strings.NewReader(body))
	if err != nil {
		return err
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s", method, at, response.Status)
	}
	return json.NewDecoder(response.Body).Decode(answer)
}
