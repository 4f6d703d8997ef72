package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"parley/conversation"
	"parley/conversation/chats"
	"parley/gateway/service"
)

// take is Desk.Take: run is the context of the channel, ctx that of who delivers.
func (c *Channel) take(run, ctx context.Context, u Update, done func(error)) {
	c.d.Metrics.Received.WithLabelValues(string(c.Name()), u.Kind.String()).Inc()
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		done(ctx.Err())
		return
	case <-run.Done():
		done(run.Err())
		return
	}
	c.enqueue(u.Chat, func(r *room) {
		defer func() { <-c.slots }()
		var err error
		if panicked := c.guard("take", func() { err = r.take(run, u) }); panicked != nil {
			err = nil // it would fail the same way each time that it is delivered, and hold up all behind it
		}
		done(err)
	})
}

// guard does f, and survives its panic: one message that nobody has thought of ends neither the
// other chats nor the server. It returns the panic as an error, which the log has then.
func (c *Channel) guard(doing string, f func()) (panicked error) {
	defer func() {
		if r := recover(); r != nil {
			panicked = fmt.Errorf("panic: %v", r)
			c.fault(doing, panicked)
			c.d.Logger.Error("panic", "doing", doing, "panic", r, "stack", service.Stack())
		}
	}()
	f()
	return nil
}

// enqueue runs f with the room of a chat after all that was enqueued for it before, on a
// goroutine that lives as long as there is something to do. A room that then knows of no
// chat goes with it: of people who may not write, and of messages that are none of ours.
func (c *Channel) enqueue(id string, f func(*room)) {
	key := c.chatKey(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.chats[key]
	if r == nil {
		r = c.newRoom(key)
		c.chats[key] = r
	}
	r.queue = append(r.queue, f)
	if r.working {
		return
	}
	r.working = true
	c.wg.Go(func() {
		for next := c.next(r); next != nil; next = c.next(r) {
			next(r)
		}
	})
}

// next is what a room has to do; nil = nothing, and its goroutine ends.
func (c *Channel) next(r *room) func(*room) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(r.queue) > 0 {
		next := r.queue[0]
		r.queue = r.queue[1:]
		return next
	}
	r.working = false
	r.mu.Lock()
	unknown := r.row.rev == 0 && r.feet == nil
	r.mu.Unlock()
	if unknown {
		delete(c.chats, r.row.key.Chat)
	}
	return nil
}

// take does what an update asks for. It returns nil when that is durable.
func (r *room) take(ctx context.Context, u Update) error {
	c := r.c
	if u.Kind == Left {
		return r.left(ctx)
	}
	if u.Kind == Deleted && u.From.ID == "" {
		if known, err := r.load(ctx); err != nil || !known {
			return err
		}
		r.mu.Lock()
		u.From.ID = r.row.state.saidBy(u.Name)
		r.mu.Unlock()
		if u.From.ID == "" {
			return nil // it was none of ours
		}
	}
	may := c.may(u)
	if may == nothing {
		if u.Command && u.Reply != nil { // nobody else reads it, and the platform waits for an answer
			_ = u.Reply(ctx, Texts.MayNot) // a kindness; losing it is no reason to take the command again
		}
		return nil
	}
	switch u.Kind {
	case Edited, Deleted:
		if may != write {
			return nil
		}
		return r.changed(ctx, u)
	case Pressed:
		if may != write {
			return nil
		}
		return r.pressed(ctx, u)
	}
	name, args, isCommand := command(u.Text)
	if !isCommand && u.Command {
		name, isCommand = "help", true
	}
	if u.Group && !u.Addressed && !c.settings.All && !isCommand {
		return nil // people talk with each other
	}
	if isCommand && u.Group && !u.Addressed && !u.Command && !known(name) {
		return nil // it may be meant for another bot
	}
	if !isCommand && may != write {
		c.refused("reader")
		return r.answered(ctx, u, r.reply(ctx, u, Texts.ReadersAsk(c.traits.Prefix)))
	}
	if !isCommand && strings.TrimSpace(u.Text) == "" && len(u.Files) == 0 {
		return nil
	}
	if c.settings.UserRate > 0 && c.rates.Take(u.From.ID, c.d.Now()).Wait > 0 {
		c.refused("rate")
		return r.answered(ctx, u, r.reply(ctx, u, fmt.Sprintf("You write faster than %d messages a minute. Please wait a little, and send this again.", c.settings.UserRate)))
	}
	if isCommand {
		return r.answered(ctx, u, r.command(ctx, u, may, name, args))
	}
	return r.say(ctx, u, u.Text)
}

// answered writes down that an update was dealt with that did not become a message of the
// session. A platform that is asked for what was missed would otherwise bring it again at
// each start, and a command would be done again.
func (r *room) answered(ctx context.Context, u Update, err error) error {
	if err != nil {
		return err
	}
	known, err := r.load(ctx)
	if err != nil || !known {
		return err // of a chat without a row nothing is asked for
	}
	r.mu.Lock()
	last := r.row.state.Last
	r.mu.Unlock()
	if last == u.Name {
		return nil
	}
	err = r.save(ctx, func(s *state) { s.Last = u.Name })
	if errors.Is(err, errErased) {
		return nil
	}
	return err
}

// left stops deliveries to a chat that the bot is not in any more.
func (r *room) left(ctx context.Context) error {
	known, err := r.load(ctx)
	if err != nil || !known {
		return err
	}
	return r.save(ctx, func(s *state) { s.Closed = "the bot was removed from the chat" })
}

// open makes sure that the chat has a row and a session, and that it is followed.
func (r *room) open(ctx context.Context, u Update) error {
	known, err := r.load(ctx)
	if err != nil {
		return err
	}
	if known {
		r.mu.Lock()
		session, closed := r.row.state.Session, r.row.state.Closed
		r.mu.Unlock()
		if closed != "" { // somebody writes there, so it is open again
			if err := r.save(ctx, func(s *state) { s.Closed, s.To, s.Group = "", u.To, u.Group }); err != nil {
				return err
			}
		}
		if session != "" {
			r.follow(ctx)
			return nil
		}
	}
	key := service.NewSessionKey(&r.c.owner, string(r.row.key.Chat))
	made, err := r.create(ctx, key, conversation.Create{Title: title(r.c.traits.Channel, u), Owner: r.c.owner.User})
	if err != nil {
		return err
	}
	err = r.save(ctx, func(s *state) {
		*s = state{Session: made.Session, To: u.To, Group: u.Group, People: s.People}
	})
	if err != nil {
		return err
	}
	r.follow(ctx)
	return nil
}

// title is what a chat's session is called at first.
func title(channel chats.Channel, u Update) string {
	t := cmp.Or(u.Title, u.From.Name, u.From.Handle, u.Chat)
	t = strings.ToUpper(string(channel[:1])) + string(channel[1:]) + ": " + t
	if runes := []rune(t); len(runes) > 80 {
		t = string(runes[:80])
	}
	return t
}

// author is who speaks, for the session.
func (r *room) author(u Update) conversation.UserID {
	return conversation.UserID(string(r.c.Name()) + ":" + u.From.ID)
}

// say gives the session a text of a person.
func (r *room) say(ctx context.Context, u Update, text string) error {
	if err := r.open(ctx, u); err != nil {
		return r.trouble(ctx, u, err)
	}
	if q := r.questionAt(u.ReplyTo); q != nil { // a reply to a question answers it
		return r.answer(ctx, u, q.ID, withFiles(text, u.Files))
	}
	r.mu.Lock()
	_, again := r.row.state.said(u.Name)
	about := r.row.state.posted(u.ReplyTo)
	r.mu.Unlock()
	what := conversation.Say{
		Author: r.author(u), AuthorName: u.From.Name, Via: r.c.traits.Via,
		ClientMsgID: clientID(u), Text: withFiles(text, u.Files), InReplyTo: about,
	}
	receipt, err := r.tell(ctx, what)
	if gone(err) { // the session was erased, and the chat's row with it: the chat begins anew
		if err := r.reload(ctx); err != nil {
			return err
		}
		if err := r.open(ctx, u); err != nil {
			return r.trouble(ctx, u, err)
		}
		what.InReplyTo, again = "", false
		receipt, err = r.tell(ctx, what)
	}
	if err != nil {
		return r.trouble(ctx, u, err)
	}
	if receipt.Duplicate {
		r.c.d.Metrics.Duplicates.WithLabelValues(string(r.c.Name())).Inc()
	}
	return r.taken(ctx, u, receipt.Message, again)
}

// clientID is the name by which a session knows a platform's message when it comes again.
func clientID(u Update) conversation.ClientMsgID {
	return conversation.ClientMsgID("chat:" + string(u.Name))
}

// taken writes down that a message was taken.
func (r *room) taken(ctx context.Context, u Update, message conversation.MessageID, again bool) error {
	if again {
		return nil
	}
	entry := r.entry(TopicMessage, Info, u.From.Name+" wrote", Details{User: r.author(u), Message: message, Text: u.Text})
	err := r.save(ctx, func(s *state) {
		s.Last, s.To = u.Name, u.To
		s.met(u.From)
		if message != "" {
			s.Said = keep(s.Said, saidAs{u.Name, message, u.From.ID}, keptMessages)
		}
	}, entry)
	if err == nil && message != "" {
		r.react(ctx, u.Name, Accepted)
	}
	return err
}

// changed is an edit or a deletion of a message on the platform.
func (r *room) changed(ctx context.Context, u Update) error {
	known, err := r.load(ctx)
	if err != nil || !known {
		return err
	}
	r.mu.Lock()
	message, said := r.row.state.said(u.Name)
	r.mu.Unlock()
	if !said {
		return nil // it was none of ours
	}
	if name, args, is := command(u.Text); is && u.Kind == Edited { // commands are taken out of edits, too
		if name != "ask" || args == "" {
			return nil
		}
		u.Text = args
	}
	var c conversation.Command = conversation.Edit{By: r.author(u), Message: message, Text: withFiles(u.Text, u.Files)}
	if u.Kind == Deleted {
		c = conversation.Withdraw{By: r.author(u), Message: message}
	}
	_, err = r.tell(ctx, c)
	var e *conversation.Error
	if errors.As(err, &e) && !transient(e) {
		if u.Kind == Edited && e.Code == conversation.Conflict {
			return r.reply(ctx, u, "I have read that message already. Please send the change as a new message.")
		}
		return nil
	}
	return err
}

// pressed is a button of a question.
func (r *room) pressed(ctx context.Context, u Update) error {
	known, err := r.load(ctx)
	if err != nil || !known {
		return err
	}
	var token, choice int
	if _, err := fmt.Sscanf(u.Token, "q%d.%d", &token, &choice); err != nil {
		return nil
	}
	r.mu.Lock()
	found := r.row.state.question(func(q question) bool { return q.Token == token })
	var q question
	if found != nil {
		q = *found
	}
	r.mu.Unlock()
	if found == nil || choice < 0 || choice >= len(q.Choices) {
		return r.reply(ctx, u, Texts.QuestionClosed)
	}
	return r.answer(ctx, u, q.ID, q.Choices[choice])
}

// answer answers a question by its id.
func (r *room) answer(ctx context.Context, u Update, id conversation.QuestionID, text string) error {
	receipt, err := r.tell(ctx, conversation.Answer{
		Author: r.author(u), AuthorName: u.From.Name, Via: r.c.traits.Via, ClientMsgID: clientID(u), Question: id, Text: text,
	})
	var e *conversation.Error
	switch {
	case errors.As(err, &e) && (e.Code == conversation.QuestionNotOpen || e.Code == conversation.NotFound):
		return r.reply(ctx, u, Texts.QuestionClosed)
	case err != nil:
		return r.trouble(ctx, u, err)
	}
	r.mu.Lock()
	_, again := r.row.state.said(u.Name)
	r.mu.Unlock()
	return r.taken(ctx, u, receipt.Message, again)
}

// questionAt is the open question that stands in a message; nil = none does.
func (r *room) questionAt(name MessageName) *question {
	if name == "" {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.row.state.question(func(q question) bool { return q.Name == name && !q.Closed })
	if q == nil {
		return nil
	}
	found := *q
	return &found
}

// trouble tells a person why nothing became of what he wrote. What may still become of it is
// not answered: the error goes back, and the update is delivered again.
func (r *room) trouble(ctx context.Context, u Update, err error) error {
	var e *conversation.Error
	if !errors.As(err, &e) || transient(e) || ctx.Err() != nil {
		return err
	}
	r.c.refused(string(e.Code))
	if err := r.note(ctx, r.entry(TopicError, Warning, "a message was refused", Details{User: r.author(u), Text: u.Text, Error: e.Message, Code: e.Code})); err != nil {
		return err
	}
	return r.answered(ctx, u, r.reply(ctx, u, e.Message))
}

// transient is true for errors that will pass by themselves; of the others a person is told.
func transient(e *conversation.Error) bool {
	switch e.Code {
	case conversation.Unavailable, conversation.Timeout, conversation.Internal:
		return !e.Final
	}
	return false
}

// withFiles is a text and what was attached to it, which models are told in words.
func withFiles(text string, files []File) string {
	if len(files) == 0 {
		return text
	}
	lines := make([]string, 0, len(files)+1)
	if strings.TrimSpace(text) != "" {
		lines = append(lines, text)
	}
	for _, f := range files {
		what := []string{cmp.Or(oneLine(f.Type), "a file")}
		if f.Bytes > 0 {
			what = append(what, size(f.Bytes))
		}
		name := ""
		if f.Name != "" {
			name = " " + oneLine(f.Name)
		}
		lines = append(lines, fmt.Sprintf("[attached:%s (%s); its content was not handed over]", name, strings.Join(what, ", ")))
	}
	return strings.Join(lines, "\n")
}

// oneLine keeps what others wrote from ending our line or bracket.
func oneLine(s string) string {
	return strings.NewReplacer("\n", " ", "\r", " ", "[", "(", "]", ")").Replace(s)
}

// size is a number of bytes for people.
func size(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d bytes", n)
	case n < 1_000_000:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	default:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
}

// raw is a JSON string.
func raw(s string) json.RawMessage {
	b, _ := json.Marshal(s) // a string always has one
	return b
}
