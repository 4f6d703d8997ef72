package telegram

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/mymmrac/telego"

	"parley/gateway/chat"
)

// allowedUpdates are the kinds that we ask for. Telegram tells bots of no deletions.
var allowedUpdates = []string{"message", "edited_message", "callback_query", "my_chat_member"}

const (
	batch = 100 // updates of one poll, the most that there may be
	// refetch is how long a poll waits for updates that are being taken before it looks for
	// others, and before one that was not taken is fetched again.
	refetch     = 2 * time.Second
	maxUpdate   = 1 << 20          // bytes of an update that a webhook brings
	webhookWait = 25 * time.Second // how long a webhook waits until its update is durable
	maxEndings  = 16               // buttons whose waiting sign is ended at a time
)

// run is one Run.
type run struct {
	b    *Bot
	ctx  context.Context
	desk chat.Desk

	mu      sync.Mutex
	ended   bool
	at      sync.WaitGroup // what goes on within the run; nothing is added once it has ended
	endings chan struct{}
}

// enter says that something goes on within the run, until leave. It is false once the run ends.
func (r *run) enter() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.at.Add(1)
	}
	return !r.ended
}

func (r *run) leave() { r.at.Done() }

// end ends the run: when it returns, nothing goes on within it.
func (r *run) end() {
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	r.at.Wait()
}

// Run implements chat.Platform.
func (b *Bot) Run(ctx context.Context, d chat.Desk) error {
	ctx, cancel := context.WithCancel(ctx)
	r := &run{b: b, ctx: ctx, desk: d, endings: make(chan struct{}, maxEndings)}
	defer r.end()
	defer cancel() // before end, so that what goes on ends soon
	var me telego.User
	if err := b.ask(ctx, "getMe", struct{}{}, &me); err != nil {
		return err
	}
	b.me.Store(&me)
	if b.o.Receive == ReceiveWebhook {
		return r.webhook()
	}
	if err := b.ask(ctx, "deleteWebhook", telego.DeleteWebhookParams{}, nil); err != nil {
		return err
	}
	b.o.Logger.Info("Telegram is polled", "bot", me.Username)
	return r.poll()
}

// webhook has Telegram call us until the run ends. The webhook stays then: what comes
// meanwhile waits at Telegram.
func (r *run) webhook() error {
	b := r.b
	b.mu.Lock()
	b.run = r // before it is set: Telegram may call at once
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.run == r {
			b.run = nil
		}
	}()
	err := b.ask(r.ctx, "setWebhook", telego.SetWebhookParams{
		URL: b.o.WebhookURL, SecretToken: b.o.WebhookSecret, AllowedUpdates: allowedUpdates,
	}, nil)
	if err != nil {
		return err
	}
	b.o.Logger.Info("Telegram calls a webhook", "bot", b.me.Load().Username)
	<-r.ctx.Done()
	return r.ctx.Err()
}

// Webhook takes what Telegram posts to the webhook's URL, and returns the status of the
// answer: 200 when the update is durable, or can never be read; 401 = it does not come from
// Telegram; 400 and 413 = it is no update; 503 = Telegram is to deliver it again. header
// gives a header of the request by its name. It may be called from any goroutine.
func (b *Bot) Webhook(ctx context.Context, header func(string) string, body []byte) (status int) {
	if b.o.Receive != ReceiveWebhook || !same(header("X-Telegram-Bot-Api-Secret-Token"), b.o.WebhookSecret) {
		return http.StatusUnauthorized
	}
	if len(body) > maxUpdate {
		return http.StatusRequestEntityTooLarge
	}
	b.mu.Lock()
	r := b.run
	b.mu.Unlock()
	if r == nil || !r.enter() {
		return http.StatusServiceUnavailable
	}
	defer r.leave()
	if !json.Valid(body) {
		return http.StatusBadRequest
	}
	_, u, is := r.read(body)
	if !is {
		return http.StatusOK
	}
	ctx, cancel := context.WithTimeout(ctx, webhookWait)
	defer cancel()
	defer context.AfterFunc(r.ctx, cancel)()
	taken := make(chan error, 1)
	r.take(ctx, u, func(err error) { taken <- err })
	select {
	case err := <-taken:
		if err == nil {
			return http.StatusOK
		}
	case <-ctx.Done():
	}
	return http.StatusServiceUnavailable
}

// same compares secrets in a time that tells nothing of them, not even their length.
func same(given, secret string) bool {
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(secret))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// read makes an update of what Telegram sends; is = there is something in it for us.
func (r *run) read(raw []byte) (id int, u chat.Update, is bool) {
	update, err := parse(raw)
	if err != nil {
		// It would come again for ever, and be no better.
		r.b.o.Logger.Error("an update of Telegram cannot be read and is left out", "update", update.UpdateID, "error", r.b.wire.short(err.Error()))
		return update.UpdateID, u, false
	}
	u, is = r.b.update(update, *r.b.me.Load())
	return update.UpdateID, u, is
}

// take gives an update to the desk. A button that was pressed shows a waiting sign until it is
// answered; at the latest that is done when it was taken.
func (r *run) take(ctx context.Context, u chat.Update, done func(error)) {
	if u.Kind != chat.Pressed {
		r.desk.Take(ctx, u, done)
		return
	}
	p := &press{b: r.b, id: queryID(u.Name)}
	u.Reply = p.reply
	r.desk.Take(ctx, u, func(err error) {
		done(err)
		if err == nil {
			r.finish(p)
		}
	})
}

// finish ends the waiting sign of a button if no reply has.
func (r *run) finish(p *press) {
	if !r.enter() {
		return
	}
	select {
	case r.endings <- struct{}{}:
	default: // very many at once: the sign ends by itself after a while
		r.leave()
		return
	}
	go func() {
		defer r.leave()
		defer func() { <-r.endings }()
		p.finish(r.ctx)
	}()
}

// poll fetches updates and confirms those that were taken.
func (r *run) poll() error {
	l := &ledger{changed: make(chan struct{}, 1)}
	for {
		wait := pollTimeout
		if len(l.all) > 0 { // those come at once
			wait = 0
		}
		var raws []json.RawMessage // one that cannot be read is not to be in the way of the others
		err := r.b.ask(r.ctx, "getUpdates", telego.GetUpdatesParams{
			Offset: l.offset, Limit: batch, Timeout: int(wait / time.Second), AllowedUpdates: allowedUpdates,
		}, &raws)
		if r.ctx.Err() != nil {
			return r.ctx.Err()
		}
		if err != nil {
			return err
		}
		l.fetched(r, raws)
		if err := l.settle(r); err != nil {
			return err
		}
	}
}

// ledger is what is known of updates that Telegram still has. Only poll's goroutine uses
// offset and all; the states of arrivals are guarded by mu.
type ledger struct {
	offset  int        // all updates before it were taken, so the next poll confirms them
	all     []*arrival // in the order of their ids, all from offset on
	mu      sync.Mutex
	changed chan struct{} // capacity 1: the state of one has changed
}

// arrival is an update that was fetched.
type arrival struct {
	id    int
	u     chat.Update
	state arrivalState
}

type arrivalState uint8

const (
	waits  arrivalState = iota // for its turn: behind others of its chat
	given                      // to the desk
	taken                      // durable
	failed                     // to be fetched again
)

// fetched adds what was not known. What had failed is tried again; what Telegram does not
// have any more is forgotten.
func (l *ledger) fetched(r *run, raws []json.RawMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := map[int]*arrival{}
	for _, a := range l.all {
		known[a.id] = a
	}
	all := l.all[:0:0]
	for _, raw := range raws {
		var head struct {
			ID int `json:"update_id"`
		}
		_ = json.Unmarshal(raw, &head) // read says what is wrong with it
		a := known[head.ID]
		if a == nil {
			a = &arrival{id: head.ID}
			var is bool
			if _, a.u, is = r.read(raw); !is {
				a.state = taken
			}
		}
		if a.state == failed {
			a.state = waits
		}
		all = append(all, a)
		l.offset = min(l.offset, a.id) // after a week of silence Telegram counts from anywhere
	}
	l.all = all
}

// settle has the desk take what was fetched, one after the other within a chat. It returns
// when all was taken, or when it is time to look for more; the offset is then behind what was taken.
func (l *ledger) settle(r *run) error {
	look := time.NewTimer(refetch)
	defer look.Stop()
	for {
		l.give(r)
		if l.advance() {
			return nil
		}
		select {
		case <-l.changed:
		case <-look.C:
			return nil
		case <-r.ctx.Done():
			return r.ctx.Err()
		}
	}
}

// give gives to the desk what nothing of the same chat is before.
func (l *ledger) give(r *run) {
	busy := map[string]bool{}
	for _, a := range l.all {
		l.mu.Lock()
		free := a.state == waits && !busy[a.u.Chat]
		if free {
			a.state = given
		}
		if a.state != taken {
			busy[a.u.Chat] = true
		}
		l.mu.Unlock()
		if !free {
			continue
		}
		r.take(r.ctx, a.u, func(err error) {
			l.mu.Lock()
			a.state = taken
			if err != nil {
				a.state = failed
			}
			l.mu.Unlock()
			if err != nil && !errors.Is(err, context.Canceled) {
				r.b.o.Logger.Warn("an update of Telegram was not taken; it is fetched again", "update", a.id, "error", err)
			}
			select {
			case l.changed <- struct{}{}:
			default:
			}
		})
	}
}

// advance moves the offset behind what was taken; whole = that is all.
func (l *ledger) advance() (whole bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for n < len(l.all) && l.all[n].state == taken {
		l.offset = l.all[n].id + 1
		n++
	}
	l.all = l.all[n:]
	return len(l.all) == 0
}
