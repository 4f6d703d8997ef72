package discord

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley/gateway/chat"
	"parley/gateway/discord/discordtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is longer than anything takes that works.
const patience = 30 * time.Second

// desk takes updates, and remembers them.
type desk struct {
	mu      sync.Mutex
	changed chan struct{}
	taken   []chat.Update
	known   []chat.KnownChat
	unknown error // instead of known
	// answer says what becomes of an update; nil = it is taken.
	answer func(chat.Update) error
	// hold has updates wait until it is closed; nil = none does.
	hold chan struct{}
}

func newDesk() *desk { return &desk{changed: make(chan struct{})} }

func (d *desk) Take(ctx context.Context, u chat.Update, done func(error)) {
	d.mu.Lock()
	answer, hold := d.answer, d.hold
	d.mu.Unlock()
	go func() {
		if hold != nil {
			select {
			case <-hold:
			case <-ctx.Done():
				done(ctx.Err())
				return
			}
		}
		var err error
		if answer != nil {
			err = answer(u)
		}
		if err == nil {
			d.mu.Lock()
			d.taken = append(d.taken, u)
			close(d.changed)
			d.changed = make(chan struct{})
			d.mu.Unlock()
		}
		done(err)
	}()
}

func (d *desk) Known(context.Context) iter.Seq2[chat.KnownChat, error] {
	d.mu.Lock()
	known, err := append([]chat.KnownChat{}, d.known...), d.unknown
	d.mu.Unlock()
	return func(yield func(chat.KnownChat, error) bool) {
		if err != nil {
			yield(chat.KnownChat{}, err)
			return
		}
		for _, k := range known {
			if !yield(k, nil) {
				return
			}
		}
	}
}

func (d *desk) set(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

func (d *desk) all() []chat.Update {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]chat.Update{}, d.taken...)
}

// lines are the updates as "kind chat: text".
func (d *desk) lines() []string {
	lines := []string{}
	for _, u := range d.all() {
		lines = append(lines, strings.TrimRight(fmt.Sprintf("%s %s: %s", u.Kind, u.Chat, u.Text), " "))
	}
	return lines
}

// wait waits for n updates, and returns the newest of them.
func (d *desk) wait(t *testing.T, n int) chat.Update {
	t.Helper()
	late := time.After(patience)
	for {
		d.mu.Lock()
		have, changed := len(d.taken), d.changed
		d.mu.Unlock()
		if have >= n {
			return d.all()[n-1]
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("%d updates came, not %d: %q", have, n, d.lines())
		}
	}
}

// logs is a log that tests may read while it is written.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// world is a fake Discord with a bot.
type world struct {
	t    *testing.T
	fake *discordtest.Discord
	bot  *Bot
	desk *desk
	log  *logs
	ends chan error
	stop context.CancelFunc
}

// alone makes a world in which the bot does not run yet.
func alone(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, fake: discordtest.Start(), desk: newDesk(), log: &logs{}}
	t.Cleanup(w.fake.Close)
	w.bot = w.newBot(Options{})
	return w
}

// newBot makes a bot of the world's Discord, as a start of the process does.
func (w *world) newBot(o Options) *Bot {
	w.t.Helper()
	o.Token, o.APIURL = discordtest.Token, w.fake.URL
	o.Logger = slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	b, err := New(o)
	if err != nil {
		w.t.Fatal(err)
	}
	b.settle, b.pause = time.Millisecond, time.Millisecond
	w.t.Cleanup(func() { b.rest.Client.CloseIdleConnections() })
	return b
}

// together makes a world in which the bot runs.
func together(t *testing.T) *world {
	t.Helper()
	w := alone(t)
	w.run()
	return w
}

// run has the bot run until the end of the test.
func (w *world) run() {
	w.t.Helper()
	before, _ := w.fake.Connections()
	ctx, stop := context.WithCancel(w.t.Context())
	ends := make(chan error, 1)
	w.ends, w.stop = ends, stop
	go func() {
		for { // as gateway/chat does, which also waits in between
			err := w.bot.Run(ctx, w.desk)
			if ctx.Err() != nil || failure(err) != 0 {
				ends <- err
				return
			}
		}
	}()
	w.t.Cleanup(func() {
		stop()
		<-ends
	})
	w.until("the bot is connected", func() bool {
		now, _ := w.fake.Connections()
		return now > before && w.fake.Connected()
	})
	beats := w.fake.Heartbeats()
	w.fake.Beat() // answered behind what came before it
	w.until("the bot has read that it is connected", func() bool { return w.fake.Heartbeats() > beats })
}

// end ends the run.
func (w *world) end() {
	w.t.Helper()
	w.stop()
	select {
	case err := <-w.ends:
		if !errors.Is(err, context.Canceled) {
			w.t.Fatalf("the run ended with %v", err)
		}
		w.ends <- err
	case <-time.After(patience):
		w.t.Fatal("the run does not end")
	}
}

// until waits for something on the fake's side.
func (w *world) until(what string, is func() bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	if w.fake.Until(ctx, is) != nil {
		w.t.Fatalf("never: %s\n%s", what, w.log)
	}
}

// to is the address of a channel.
func to(channel string) chat.Address { return destination{Channel: channel}.address() }

// failure is what an error says of a trouble; 0 = it says nothing.
func failure(err error) chat.Trouble {
	var f *chat.Failure
	if errors.As(err, &f) {
		return f.Trouble
	}
	return 0
}
