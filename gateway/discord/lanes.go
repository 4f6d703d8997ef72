package discord

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"parley/gateway/chat"
)

// Bounds of what waits.
const (
	maxLane   = 1000   // jobs of one channel; what comes beyond them is read from its history later
	maxQueued = 20_000 // jobs of all channels
	maxLanes  = 10_000 // channels that are remembered while nothing waits there
	readers   = 4      // histories that are read at a time
)

// run is one Run.
type run struct {
	ctx     context.Context
	stop    context.CancelFunc
	desk    chat.Desk
	wg      sync.WaitGroup
	readers chan struct{} // held by who reads a history
	answers chan struct{} // held by who acknowledges an interaction
}

// lane is what waits in one channel; one worker at a time does it, in order. The bot's mutex
// guards it. Lanes outlive a Run, and what waits in them goes on with the next one.
type lane struct {
	channel string
	queue   []job
	working bool
	newest  uint64 // of the messages that were queued
	// behind: messages behind the one with the number after are missing here, and have to be
	// read from the history; they belong before queue[mark]. lost: those that come now are
	// left to that, too, and it begins when the queue is empty.
	behind, lost bool
	after        uint64
	mark         int
}

// job is one update that waits.
type job struct {
	name string // under which it is in seen; "" = none
	id   uint64 // of a message, for newest; 0 = it is none
	// update makes it; with false there is nothing to give on.
	update func(ctx context.Context) (chat.Update, bool, error)
	// taken is called when it was taken, durably.
	taken func(ctx context.Context)
}

// begin makes a run the current one.
func (b *Bot) begin(ctx context.Context, desk chat.Desk) (*run, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running != nil {
		return nil, errors.New("the bot runs already")
	}
	ctx, stop := context.WithCancel(ctx)
	r := &run{ctx: ctx, stop: stop, desk: desk, readers: make(chan struct{}, readers), answers: make(chan struct{}, 2*maxConnections)}
	b.running = r
	if b.listing { // the run before ended before it knew where to look: have READY again
		b.gw, b.listing = gatewaySession{}, false
	}
	for _, l := range b.lanes {
		b.kick(l)
	}
	return r, nil
}

// end stops a run and waits for all that it has started.
func (b *Bot) end(r *run) {
	r.stop()
	r.wg.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running = nil
}

// lane is the lane of a channel. The caller holds mu.
func (b *Bot) lane(channel string) *lane {
	l := b.lanes[channel]
	if l == nil {
		if len(b.lanes) >= maxLanes {
			for name, old := range b.lanes {
				if !old.working && !old.behind && len(old.queue) == 0 {
					delete(b.lanes, name)
				}
			}
		}
		l = &lane{channel: channel}
		b.lanes[channel] = l
	}
	return l
}

// enqueue puts a job into a lane, unless it was seen before.
func (b *Bot) enqueue(channel string, j job) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if j.name != "" && b.seen.has(j.name) {
		return
	}
	l := b.lane(channel)
	full := len(l.queue) >= maxLane || b.queued >= maxQueued
	if full && j.id == 0 {
		b.log.Warn("an update was dropped: too many wait", "chat", channel)
		return
	}
	if full && !l.lost {
		b.log.Warn("too many messages wait; the rest will be read from the history", "chat", channel)
		if l.lost = true; !l.behind {
			l.behind, l.after = true, cmp.Or(l.newest, j.id-1)
		}
		l.mark = len(l.queue)
		b.kick(l)
	}
	if j.id != 0 && (full || l.lost) {
		return
	}
	if j.name != "" {
		b.seen.add(j.name)
	}
	l.newest = max(l.newest, j.id)
	l.queue = append(l.queue, j)
	b.queued++
	b.kick(l)
}

// kick has a lane work if there is something to do and nobody does it. The caller holds mu.
func (b *Bot) kick(l *lane) {
	r := b.running
	if r == nil || r.ctx.Err() != nil || b.held > 0 || l.working || len(l.queue) == 0 && !l.behind {
		return
	}
	l.working = true
	r.wg.Go(func() { b.work(r, l) })
}

// work does what waits in a lane.
func (b *Bot) work(r *run, l *lane) {
	for {
		b.mu.Lock()
		if r.ctx.Err() != nil || b.held > 0 || len(l.queue) == 0 && !l.behind {
			l.working = false
			b.mu.Unlock()
			return
		}
		if l.behind && (!l.lost || len(l.queue) == 0) {
			b.mu.Unlock()
			b.again(r, l, "reading what was missed", func() error { return b.catchUp(r, l) })
			continue
		}
		j := l.queue[0]
		b.mu.Unlock()
		if !b.again(r, l, "giving an update on", func() error { return b.take(r, j) }) {
			continue // the run has ended; it stays
		}
		if j.taken != nil {
			r.wg.Go(func() { j.taken(r.ctx) })
		}
		b.mu.Lock()
		l.queue = slices.Delete(l.queue, 0, 1)
		b.queued--
		l.mark = max(l.mark-1, 0)
		b.mu.Unlock()
	}
}

// again does f until it is done; false = the run has ended.
func (b *Bot) again(r *run, l *lane, doing string, f func() error) bool {
	for pause := b.pause; ; pause = min(2*pause, longestPause) {
		err := f()
		if err == nil {
			return true
		}
		if r.ctx.Err() != nil {
			return false
		}
		rest := pause
		if f := (*chat.Failure)(nil); errors.As(err, &f) {
			rest = max(rest, f.After)
		}
		b.log.Warn("trying again", "doing", doing, "chat", l.channel, "error", b.clean(err), "pause", rest)
		if wait(r.ctx, rest) != nil {
			return false
		}
	}
}

// take gives an update on; it returns nil when it is durable.
func (b *Bot) take(r *run, j job) error {
	u, is, err := j.update(r.ctx)
	if err != nil || !is {
		return err
	}
	b.log.Debug("update", "kind", u.Kind, "chat", u.Chat)
	done := make(chan error, 1)
	r.desk.Take(r.ctx, u, func(err error) { done <- err })
	select {
	case err := <-done:
		return err
	case <-r.ctx.Done():
		return r.ctx.Err()
	}
}

// ready begins after a connection that could not be resumed: what was missed since the newest
// message that was taken is in the histories. Until it is known where to look, all lanes rest.
func (b *Bot) ready(r *run, data json.RawMessage) error {
	var ready struct {
		Session string `json:"session_id"`
		URL     string `json:"resume_gateway_url"`
		User    person `json:"user"`
		Guilds  []struct {
			ID string `json:"id"`
		} `json:"guilds"`
	}
	if err := json.Unmarshal(data, &ready); err != nil {
		return err
	}
	b.gw.id, b.gw.url = ready.Session, ready.URL
	in := map[string]bool{"": true}
	for _, g := range ready.Guilds {
		in[g.ID] = true
	}
	b.mu.Lock()
	b.held++
	b.listing = true
	for _, l := range b.lanes { // what comes from now on comes after what was missed
		if !l.behind {
			l.after, l.mark = l.newest, len(l.queue)
		}
	}
	b.mu.Unlock()
	r.wg.Go(func() {
		known, ok := b.known(r)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.held--
		if !ok {
			return
		}
		b.listing = b.held > 0
		for _, k := range known {
			b.engaged[k.Chat] = true
			l := b.lane(k.Chat)
			l.after = max(l.after, lastOf(k))
			if d, err := where(k.To); err == nil && !in[d.Guild] {
				l.queue, b.queued = append(l.queue, left(k)), b.queued+1
			} else if l.after > 0 {
				l.behind = true
			}
		}
		for _, l := range b.lanes {
			b.kick(l)
		}
	})
	return nil
}

// known lists the chats that have spoken with the bot; false = the run has ended.
func (b *Bot) known(r *run) (known []chat.KnownChat, ok bool) {
	ok = b.again(r, &lane{}, "listing the chats", func() error {
		known = nil
		for k, err := range r.desk.Known(r.ctx) {
			if err != nil {
				return fmt.Errorf("the chats cannot be listed: %w", err)
			}
			known = append(known, k)
		}
		return nil
	})
	return known, ok
}

// lastOf is the number of the newest message that was taken from a chat; commands and presses
// have one, too, behind a word.
func lastOf(k chat.KnownChat) uint64 {
	name := string(k.Last)
	for _, prefix := range []string{commandPrefix, pressPrefix} {
		if len(name) > len(prefix) && name[:len(prefix)] == prefix {
			name = name[len(prefix):]
		}
	}
	return number(name)
}

// left is the job that says that the bot is not in a chat any more.
func left(k chat.KnownChat) job {
	return job{update: func(context.Context) (chat.Update, bool, error) {
		return chat.Update{Kind: chat.Left, Chat: k.Chat, To: k.To}, true, nil
	}}
}

// leave says that the bot is not in the chats any more whose addresses match.
func (b *Bot) leave(r *run, match func(destination) bool) {
	r.wg.Go(func() {
		known, _ := b.known(r)
		for _, k := range known {
			if d, err := where(k.To); err == nil && match(d) {
				b.enqueue(k.Chat, left(k))
			}
		}
	})
}

// catchUp reads what was missed in a channel into its lane.
func (b *Bot) catchUp(r *run, l *lane) error {
	select {
	case r.readers <- struct{}{}:
		defer func() { <-r.readers }()
	case <-r.ctx.Done():
		return r.ctx.Err()
	}
	b.mu.Lock()
	after, mark := l.after, l.mark
	l.behind, l.lost = false, false
	b.mu.Unlock()
	oldest := firstAt(b.now().Add(-b.o.MissedFor))
	list, whole, err := b.history(r.ctx, l.channel, max(after, oldest), b.o.Missed)
	b.mu.Lock()
	defer b.mu.Unlock()
	var f *chat.Failure
	if errors.As(err, &f) && (f.Trouble == chat.Unreachable || f.Trouble == chat.Unfit) {
		b.log.Warn("what was missed cannot be read", "chat", l.channel, "error", err)
		return nil
	}
	if err != nil {
		l.behind, l.after, l.mark = true, min(l.after, after), min(l.mark, mark)
		return err
	}
	var jobs []job
	for _, m := range list {
		if j, is := b.saidJob(m); is && b.seen.add(j.name) {
			jobs = append(jobs, j)
			b.seen.add(editName(m)) // its content is of after the edit
		}
		l.newest = max(l.newest, number(m.ID))
	}
	switch {
	case len(list) >= b.o.Missed:
		b.log.Warn("more messages were missed than are read of a history; the oldest are left out", "chat", l.channel, "read", len(list))
	case !whole:
		b.log.Info("the history of a channel is empty; the bot needs the permission Read Message History to see what it has missed", "chat", l.channel)
	}
	if len(jobs) > 0 {
		b.log.Info("messages that were missed are taken from the history", "chat", l.channel, "messages", len(jobs))
	}
	l.queue = slices.Insert(l.queue, min(mark, len(l.queue)), jobs...)
	b.queued += len(jobs)
	l.mark += len(jobs)
	return nil
}
