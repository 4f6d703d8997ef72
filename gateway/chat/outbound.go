package chat

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"parley/conversation"
	"parley/conversation/chats"
	"parley/gateway/fanout"
)

// follow shows the chat what happens in its session, from where its row says, until ctx ends.
// A chat that is followed already is not followed twice.
func (r *room) follow(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.feet != nil && r.of == r.row.state.Session {
		return
	}
	if r.feet != nil {
		r.feet()
	}
	session := r.row.state.Session
	ctx, stop := context.WithCancel(ctx)
	r.feet, r.of = stop, session
	r.c.d.Metrics.Followed.WithLabelValues(string(r.c.Name())).Inc()
	r.c.wg.Go(func() {
		defer r.c.d.Metrics.Followed.WithLabelValues(string(r.c.Name())).Dec()
		r.deliver(ctx, session)
		stop()
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.of == session {
			r.feet, r.of = nil, ""
		}
	})
}

// deliver is the follower of one session: it subscribes again for as long as there is one.
func (r *room) deliver(ctx context.Context, session conversation.SessionID) {
	defer r.showTyping(ctx, false)
	for pause := pauses(); ; {
		began := r.c.d.Now()
		var err error
		if panicked := r.c.guard("deliver", func() { err = r.deliverFrom(ctx, session) }); panicked != nil {
			err = panicked
		}
		var e *conversation.Error
		switch {
		case ctx.Err() != nil || errors.Is(err, errErased) || gone(err):
			return
		case errors.Is(err, errReplaced):
			return // Run ends
		case errors.As(err, &e) && !transient(e) && !e.Retryable():
			r.c.d.Logger.Error("a chat is not followed any more", "chat", string(r.row.key.Chat), "error", r.c.clean(err))
			return
		}
		if r.c.d.Now().Sub(began) > longestPause {
			pause = pauses()
		}
		r.c.d.Metrics.Retries.WithLabelValues(string(r.c.Name()), "follow").Inc()
		if wait(ctx, pause()) != nil {
			return
		}
	}
}

// deliverFrom shows everything that comes after the chat's cursor. nil = the session is gone.
func (r *room) deliverFrom(ctx context.Context, session conversation.SessionID) error {
	var log conversation.LogID
	callers := map[conversation.CallID]bool{} // open calls of tools that a program runs, which brought them
	o := fanout.Options{
		Key: conversation.SessionKey{Tenant: r.row.key.Tenant, Session: session}, As: r.c.owner.User, Values: true,
		Begin: func(v conversation.View) fanout.Start {
			r.mu.Lock()
			defer r.mu.Unlock()
			log = v.Log
			if r.row.state.Log != "" && r.row.state.Log != v.Log || r.row.state.Seq > v.Head {
				return fanout.Start{} // the log is another one: what was shown is known by its time
			}
			return fanout.Start{Since: r.row.state.Seq}
		},
	}
	sub, _, err := r.c.d.Hub.Subscribe(ctx, r.c.d.Engine, r.c.d.Limits, o)
	if err != nil {
		return err
	}
	defer sub.Close()
	r.mu.Lock()
	fresh, before := r.row.state.Log != log, r.row.state.Log != ""
	shown := r.row.state.At
	r.mu.Unlock()
	if fresh {
		err := r.save(ctx, func(s *state) {
			if before {
				s.Seq, s.Pieces, s.Sending = 0, 0, nil
			}
			s.Log = log
		})
		if err != nil {
			return err
		}
	}
	for {
		d, err := sub.Next(ctx)
		switch {
		case err != nil:
			return err
		case d.Gone:
			return errErased
		}
		for _, e := range d.Events {
			if fresh && before && !e.At.After(shown) {
				continue
			}
			if of(callers, e) {
				continue
			}
			if err := r.show(ctx, e); err != nil {
				return err
			}
		}
	}
}

// of is true for what is between the session and a program that brought tools: a call of one,
// and the question for its result. No chat is shown them, and the chat's cursor stays before
// them until something else comes: whoever begins there again sees the call first, by which
// the question is known.
func of(callers map[conversation.CallID]bool, e conversation.Event) bool {
	switch b := e.Body.(type) {
	case conversation.ToolStarted:
		if b.Caller {
			callers[b.Call] = true
		}
		return b.Caller
	case conversation.Asked:
		return b.Call != "" && callers[b.Call]
	case conversation.ToolFinished:
		delete(callers, b.Call)
	}
	return false
}

// show shows one event. When it returns nil the chat's cursor is behind it, on disk if
// anything was sent.
func (r *room) show(ctx context.Context, e conversation.Event) error {
	switch b := e.Body.(type) {
	case conversation.PartialResponse:
		return r.part(ctx, e, b.Part, false, conversation.ResponsePlain)
	case conversation.Response:
		if b.Promoted { // it was shown as a part
			return r.passed(ctx, e, r.entry(TopicResponse, Info, "the answer is complete", Details{Message: b.Message, InReplyTo: b.InReplyTo, Seq: e.Seq, Final: true}))
		}
		return r.part(ctx, e, b.Part, true, b.ResponseKind)
	case conversation.Asked:
		return r.question(ctx, e, b)
	case conversation.QuestionAnswered:
		return r.closeQuestion(ctx, e, b.Question, b.Text)
	case conversation.QuestionClosed:
		return r.closeQuestion(ctx, e, b.Question, "")
	case conversation.MessageResolved:
		if b.How == conversation.ResolvedAnswered || b.How == conversation.ResolvedMerged {
			r.mu.Lock()
			name := r.row.state.as(b.Message)
			r.mu.Unlock()
			r.react(ctx, name, Answered)
		}
	case conversation.TaskStatusChanged:
		r.showTyping(ctx, b.New == conversation.TaskRunning)
		if b.New == conversation.TaskError {
			d := Details{Seq: e.Seq, Message: b.Trigger}
			if b.Error != nil {
				d.Code, d.Error = b.Error.Code, b.Error.Message
			}
			return r.passed(ctx, e, r.entry(TopicError, Bad, "a task failed", d))
		}
	}
	// Nothing was sent. If this is forgotten in a crash the event is looked at again.
	free, err := r.alone(ctx)
	if err != nil {
		return err
	}
	defer free()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.row.state.Seq, r.row.state.At, r.row.state.Pieces = e.Seq, e.At, 0
	return nil
}

// passed moves the cursor behind an event, on disk.
func (r *room) passed(ctx context.Context, e conversation.Event, entries ...chats.Entry) error {
	return r.save(ctx, func(s *state) { s.Seq, s.At, s.Pieces, s.Sending = e.Seq, e.At, 0, nil }, entries...)
}

// part shows a part of an answer.
func (r *room) part(ctx context.Context, e conversation.Event, p conversation.Part, final bool, kind conversation.ResponseKind) error {
	details := Details{Message: p.Message, InReplyTo: p.InReplyTo, Seq: e.Seq, Text: p.Text, Final: final}
	if strings.TrimSpace(p.Text) == "" {
		return r.passed(ctx, e)
	}
	r.mu.Lock()
	people := r.row.state.clone().People
	reply := MessageName("")
	if r.row.state.Group || r.c.traits.Threads && !p.Guessed {
		reply = r.row.state.as(p.InReplyTo)
	}
	group := r.row.state.Group
	r.mu.Unlock()
	if !group {
		reply = "" // between two, it is clear what is answered
	}
	all := pieces(p.Text, r.c.settings.Overflow, r.fits(people))
	if len(all) == 0 {
		r.c.fault("send", &Failure{Trouble: Unfit})
		details.Error = "the answer is longer than a message may be"
		return r.passed(ctx, e, r.entry(TopicError, Bad, "an answer was not sent", details))
	}
	began := r.c.d.Now()
	outcome := sentOutcome{}
	for i, text := range all {
		o := Outgoing{Text: r.c.traits.Encode(text, people)}
		if i == 0 {
			o.ReplyTo = reply
		}
		if err := r.piece(ctx, e, i, o, func(*state) {}, func(s *state, posted Posted) {
			s.Posted = keep(s.Posted, postedAs{posted.Name, p.Message}, keptMessages)
		}, &outcome); err != nil {
			return err
		}
	}
	if outcome.failure != nil {
		details.Error = outcome.failure.Text
		return r.passed(ctx, e, r.entry(TopicError, Bad, "an answer was not sent, or not wholly", details))
	}
	r.c.d.Metrics.Delivery.WithLabelValues(string(r.c.Name())).Observe(r.c.d.Now().Sub(began).Seconds())
	details.Uncertain = outcome.uncertain
	topic, severity, summary := TopicResponse, Info, "an answer was sent"
	if kind == conversation.ResponseError { // the failed task has an entry of its own
		summary, severity = "an error was reported to the chat", Warning
	}
	return r.passed(ctx, e, r.entry(topic, severity, summary, details))
}

// question shows a question, with its choices as buttons where there are some.
func (r *room) question(ctx context.Context, e conversation.Event, q conversation.Asked) error {
	t := r.c.traits
	r.mu.Lock()
	people := r.row.state.clone().People
	token := r.row.state.Tokens + 1
	if asked := r.row.state.question(func(other question) bool { return other.ID == q.Question }); asked != nil {
		token = asked.Token // in the process before, which ended while it was sent
	}
	reply := MessageName("")
	if r.row.state.Group {
		reply = r.row.state.as(q.About)
	}
	r.mu.Unlock()
	text := q.Text
	if q.Approval != nil {
		text += "\n" + q.Approval.Tool + " " + q.Approval.Args
	}
	var o Outgoing
	if n := len(q.Choices); n > 0 && n <= t.Buttons {
		for i, c := range q.Choices {
			label := longest(c, func(s string) bool { return len([]rune(s)) <= t.Label })
			o.Choices = append(o.Choices, Choice{Label: label, Token: fmt.Sprintf("q%d.%d", token, i)})
		}
	} else if n > 0 {
		for i, c := range q.Choices {
			text += fmt.Sprintf("\n%d. %s", i+1, c)
		}
		text += "\n" + "Answer with " + t.Prefix + "answer NUMBER, or write."
	}
	how := r.c.settings.Overflow
	if how == OverflowNone {
		how = OverflowTruncate // a question that nobody sees blocks the task
	}
	all := pieces(text, how, r.fits(people))
	outcome := sentOutcome{}
	for i, piece := range all {
		one := Outgoing{Text: t.Encode(piece, people)}
		if i == 0 {
			one.ReplyTo = reply
		}
		last := i == len(all)-1
		if last {
			one.Choices = o.Choices
		}
		isIt := func(other question) bool { return other.ID == q.Question }
		// Who sees the buttons may press one before Send has returned: it is known before.
		before := func(s *state) {
			if last && s.question(isIt) == nil {
				s.Tokens = token
				s.Questions = keep(s.Questions, question{ID: q.Question, Token: token, Text: one.Text, Choices: q.Choices}, keptQuestions)
			}
		}
		if err := r.piece(ctx, e, i, one, before, func(s *state, posted Posted) {
			if asked := s.question(isIt); last && asked != nil {
				asked.Name = posted.Name
			}
		}, &outcome); err != nil {
			return err
		}
	}
	if outcome.failure != nil {
		return r.passed(ctx, e, r.entry(TopicError, Bad, "a question was not sent", Details{Seq: e.Seq, Text: q.Text, Error: outcome.failure.Text}))
	}
	return r.passed(ctx, e, r.entry(TopicResponse, Info, "a question was sent", Details{Seq: e.Seq, Text: q.Text, Uncertain: outcome.uncertain}))
}

// closeQuestion takes the buttons off a question.
func (r *room) closeQuestion(ctx context.Context, e conversation.Event, id conversation.QuestionID, chosen string) error {
	r.mu.Lock()
	found := r.row.state.question(func(q question) bool { return q.ID == id && !q.Closed })
	var q question
	if found != nil {
		q = *found
	}
	to := r.row.state.To
	r.mu.Unlock()
	if q.Name != "" && len(q.Choices) > 0 && len(q.Choices) <= r.c.traits.Buttons {
		if err := r.c.platform.Close(ctx, to, q.Name, q.Text, r.c.traits.Encode(chosen, nil)); err != nil && ctx.Err() == nil {
			r.c.fault("close", err) // a button that is pressed all the same is answered in words
		}
	}
	return r.save(ctx, func(s *state) {
		if q := s.question(func(q question) bool { return q.ID == id }); q != nil {
			q.Closed = true
		}
		s.Seq, s.At, s.Pieces = e.Seq, e.At, 0
	})
}

// lastWord is how long a channel that ends waits to hear what became of a message that is on
// its way, and then may take to write that down.
const lastWord = 2 * time.Second

// sendOut sends a message. One that is on its way when ctx ends is not called back, which
// nobody can do: its outcome is waited for, or the next process would have to send it again.
func (c *Channel) sendOut(ctx context.Context, to Address, o Outgoing) (Posted, error) {
	if err := ctx.Err(); err != nil {
		return Posted{}, &Failure{Trouble: Later, Text: "it was not sent before the end"}
	}
	ctx, cancel := linger(ctx, lastWord)
	defer cancel()
	return c.platform.Send(ctx, to, o)
}

// linger is a context that ends a while after ctx does.
func linger(ctx context.Context, while time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		_ = wait(longer, while) // who is done before cancels it
		cancel()
	})
	return longer, func() { stop(); cancel() }
}

// sentOutcome is what became of the pieces of one event.
type sentOutcome struct {
	failure   *Failure // the first piece that was given up
	uncertain bool     // one was perhaps sent twice
}

// piece sends one piece of an event, once at least. What is on its way is written down
// before, so that after a crash it is known to be uncertain. The chat's cursor moves behind
// the piece in the same save that keeps what was posted.
func (r *room) piece(ctx context.Context, e conversation.Event, n int, o Outgoing, before func(*state), keepPosted func(*state, Posted), out *sentOutcome) error {
	r.mu.Lock()
	done := r.row.state.Seq < e.Seq && n < r.row.state.Pieces
	closed, to, left := r.row.state.Closed, r.row.state.To, r.row.state.Sending
	r.mu.Unlock()
	if done {
		return nil
	}
	if closed != "" {
		out.failure = &Failure{Trouble: Unreachable, Text: closed}
		return nil
	}
	o.Nonce = nonce(r.row.key.Chat, e.Seq, n)
	name := string(r.c.Name())
	uncertain, since := left != nil && left.Nonce == o.Nonce, r.c.d.Now()
	if uncertain {
		since = left.Since
	} else if err := r.save(ctx, func(s *state) { s.Sending = &sending{o.Nonce, since}; before(s) }); err != nil {
		return err
	}
	for pause := pauses(); ; {
		if uncertain {
			posted, found, known, err := r.find(ctx, to, o, since)
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err == nil && found:
				return r.sent(ctx, n, posted, keepPosted)
			case err != nil || !known:
				r.c.d.Metrics.Uncertain.WithLabelValues(name).Inc()
				out.uncertain = true
				o.Text = r.marked(o.Text)
			}
			uncertain = false
		}
		posted, err := r.c.sendOut(ctx, to, o)
		var f *Failure
		switch {
		case err == nil:
			r.c.d.Metrics.Sent.WithLabelValues(name).Inc()
			last, cancel := linger(ctx, lastWord)
			defer cancel()
			return r.sent(last, n, posted, keepPosted)
		case !errors.As(err, &f) && ctx.Err() != nil:
			return ctx.Err() // Sending says that it is uncertain
		case !errors.As(err, &f):
			uncertain = true
		case ctx.Err() != nil: // certainly not sent, and the next process need not doubt it
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWord)
			defer cancel()
			return errors.Join(ctx.Err(), r.save(last, func(s *state) { s.Sending = nil }))
		case f.Trouble == Unfit:
			r.c.fault("send", err)
			out.failure = f
			return r.save(ctx, func(s *state) { s.Sending, s.Pieces = nil, n+1 })
		case f.Trouble == Unreachable:
			r.c.fault("send", err)
			out.failure = f
			return r.save(ctx, func(s *state) { s.Sending, s.Closed, s.Pieces = nil, f.Text, n+1 })
		}
		r.c.fault("send", err)
		rest := pause()
		if f != nil {
			rest = max(rest, f.After)
			if f.After > 0 {
				rest = f.After
			}
			if err := r.save(ctx, func(s *state) { s.Sending = nil }); err != nil { // for certain
				return err
			}
		}
		r.c.d.Metrics.Retries.WithLabelValues(name, "send").Inc()
		level := slog.LevelWarn
		if f != nil && f.Trouble == Later && f.After > 0 {
			level = slog.LevelDebug // its turn comes: with many chats at once that is no news
		}
		r.c.d.Logger.Log(ctx, level, "a message was not sent yet", "chat", string(r.row.key.Chat), "error", r.c.clean(err), "pause", rest)
		if err := wait(ctx, rest); err != nil {
			return err
		}
		if f != nil {
			since = r.c.d.Now()
			if err := r.save(ctx, func(s *state) { s.Sending = &sending{o.Nonce, since} }); err != nil {
				return err
			}
		}
	}
}

// inFlight is how long a request may still travel after the process that made it has died: only
// then its platform's history says what became of it.
const inFlight = 2 * time.Second

// findTries is how often a history is asked for before it counts as not known.
const findTries = 3

// find looks for a piece that was perhaps sent since then.
func (r *room) find(ctx context.Context, to Address, o Outgoing, since time.Time) (p Posted, found, known bool, err error) {
	if rest := inFlight - r.c.d.Now().Sub(since); rest > 0 && wait(ctx, rest) != nil {
		return p, false, false, ctx.Err()
	}
	pause := pauses()
	for try := 1; ; try++ {
		p, found, known, err = r.c.platform.Find(ctx, to, o, since)
		if err == nil || try == findTries {
			return p, found, known, err
		}
		r.c.fault("find", err)
		if wait(ctx, pause()) != nil {
			return p, false, false, ctx.Err()
		}
	}
}

// sent writes down that a piece is in the chat.
func (r *room) sent(ctx context.Context, n int, posted Posted, keepPosted func(*state, Posted)) error {
	return r.save(ctx, func(s *state) {
		s.Sending, s.Pieces = nil, n+1
		keepPosted(s, posted)
	})
}

// marked is a text that was perhaps sent before, once.
func (r *room) marked(text string) string {
	mark := "\n" + r.c.traits.Encode(Texts.Repeated, nil)
	if strings.HasSuffix(text, mark) || r.c.traits.Measure(text+mark) > r.c.traits.Limit {
		return text
	}
	return text + mark
}

// nonce names a piece: 25 characters that are the same whenever it is tried.
func nonce(chat chats.Chat, seq conversation.Seq, n int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%d", chat, seq, n))
	return base32.HexEncoding.EncodeToString(sum[:])[:25]
}

// showTyping begins or ends the sign that an answer is being made.
func (r *room) showTyping(ctx context.Context, on bool) {
	every := r.c.traits.TypingEvery
	if every == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !on && r.typing != nil {
		r.typing()
		r.typing = nil
	}
	if !on || r.typing != nil {
		return
	}
	ctx, stop := context.WithCancel(ctx)
	r.typing = stop
	r.c.wg.Go(func() {
		for ctx.Err() == nil {
			r.mu.Lock()
			to, closed := r.row.state.To, r.row.state.Closed
			r.mu.Unlock()
			if closed == "" {
				_ = r.c.guard("typing", func() {
					if err := r.c.platform.Typing(ctx, to); err != nil && ctx.Err() == nil {
						r.c.fault("typing", err)
					}
				})
			}
			if wait(ctx, every) != nil {
				return
			}
		}
	})
}
