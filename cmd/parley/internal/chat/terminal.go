package chat

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	tea "charm.land/bubbletea/v2"

	parley "parley/clients/go"
)

// What comes to the model besides keys.
type (
	eventMsg      parley.Event
	connectionMsg parley.Connection
	noticeMsg     string // one line for people
	endedMsg      struct {
		session string
		err     error
	}
	openedMsg string   // another session is shown from now on
	madeMsg   struct { // the session that was shown by a name of ours is there
		name, session string
	}
	listMsg     []parley.Summary
	attachedMsg []parley.Attachment // they go with the next message
)

// actions are what the model asks of the server; each is a command of Bubble Tea, so
// the model itself never waits. What is sent under an id ends with a sentMsg.
type actions interface {
	say(parley.Message) tea.Cmd
	approve(id, question string, yes bool, args string) tea.Cmd
	edit(id, message, text string) tea.Cmd
	withdraw(message string) tea.Cmd
	stop() tea.Cmd
	clear() tea.Cmd
	open(session string) tea.Cmd // "" = a new one; openedMsg comes of it
	follow(session string)       // also one that is to be made, by its name
	list() tea.Cmd
	attach(path string) tea.Cmd // attachedMsg comes of it
}

// runTerminal shows a session on the whole terminal.
func runTerminal(ctx context.Context, client *parley.Client, session string, o Options, connection <-chan parley.Connection, files []parley.Attachment) int {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a := &remote{ctx: ctx, client: client, options: o, sendings: map[string]*sending{}}
	if session == "" {
		session = a.unmade()
	}
	first := newModel(a, session)
	first.files = files
	program := tea.NewProgram(first, tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Out), tea.WithoutSignalHandler())
	a.send = program.Send
	a.follow(session)
	go func() { // ends with ctx
		for {
			select {
			case c := <-connection:
				program.Send(connectionMsg(c))
			case <-ctx.Done():
				return
			}
		}
	}()
	last, err := program.Run()
	m, _ := last.(model)
	if m.err != nil {
		err = m.err
	}
	lost := a.lost(m)
	var refused *parley.Error
	if session := a.session(); session != "" && (!errors.As(err, &refused) || refused.Code != parley.NotFound) {
		fmt.Fprintf(o.Out, "What the server has taken goes on there. To come back: %s\n", o.comeBack(session))
	}
	code := Answered
	if len(lost) > 0 {
		printLost(o.Err, lost)
		code = Failed
	}
	switch {
	case m.err != nil:
		return o.fail(explain(o.Server, m.err))
	case err != nil && !errors.Is(err, tea.ErrProgramKilled):
		return o.fail(err)
	}
	return code
}

// remote does what the model asks, at the server.
type remote struct {
	ctx     context.Context
	client  *parley.Client
	options Options
	send    func(tea.Msg)
	end     context.CancelFunc // of the follow

	mu       sync.Mutex
	room     *room
	rooms    int // that were to be made
	sendings map[string]*sending
}

// A room is the session that is shown. A new one is made with the first thing that is
// said in it: who only looks leaves none behind.
type room struct {
	name    string // of the model, as long as there is no session
	session string // "" = it is not made
	making  bool
	early   []func(session string, err error) // what waits for it, in order
}

const unmade = "a new session "

// unmade is the name of a session that is to be made.
func (r *remote) unmade() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rooms++
	return fmt.Sprint(unmade, r.rooms)
}

// session is the one that is shown; "" = it is not made.
func (r *remote) session() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.room.session
}

// within does something in the session that is shown, in order and without waiting:
// at once, or when the session is there. It must return soon.
func (r *remote) within(do func(session string, err error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	room := r.room
	if room.session != "" {
		do(room.session, nil)
		return
	}
	room.early = append(room.early, do)
	if !room.making {
		room.making = true
		go r.make(room) // ends with the answer or r.ctx
	}
}

func (r *remote) make(room *room) {
	session, err := r.client.Create(r.ctx, parley.NewSession{Agent: r.options.Agent})
	r.mu.Lock()
	early := room.early
	room.session, room.making, room.early = session, false, nil
	for _, do := range early {
		do(session, err)
	}
	r.mu.Unlock()
	if err == nil {
		r.send(madeMsg{room.name, session})
	}
}

// follow shows a session from its beginning, a long one from its newest events.
func (r *remote) follow(session string) {
	if r.end != nil {
		r.end()
	}
	ctx, cancel := context.WithCancel(r.ctx)
	r.end = cancel
	r.mu.Lock()
	switch {
	case strings.HasPrefix(session, unmade):
		r.room = &room{name: session}
	case r.room == nil || r.room.session != session:
		r.room = &room{session: session}
	}
	made := r.room.session != ""
	r.mu.Unlock()
	if !made {
		return
	}
	tail := 1000
	following := r.client.Follow(session, parley.From{Tail: &tail})
	go func() { // ends with the follow
		defer following.Close()
		for e, err := range following.All(ctx) {
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				r.send(endedMsg{session, err})
			default:
				r.send(eventMsg(e))
			}
		}
	}()
}

// try is an action in a session that is there; its error is a line for people.
func (r *remote) try(done string, do func(ctx context.Context, session string) error) tea.Cmd {
	session := r.session()
	return func() tea.Msg {
		if session == "" {
			return noticeMsg("nothing was said here yet")
		}
		if err := do(r.ctx, session); err != nil {
			return noticeMsg(explain(r.options.Server, err).Error())
		}
		if done == "" {
			return nil
		}
		return noticeMsg(done)
	}
}

func (r *remote) say(m parley.Message) tea.Cmd {
	if m.Question == "" {
		m.Mode = r.options.Mode
	}
	var sent *parley.Sent
	posted := make(chan error, 1)
	r.within(func(session string, err error) { // here, so that the order is that of the keys
		if err == nil {
			m.Session = session
			sent, err = r.client.Post(m)
		}
		posted <- err
	})
	return r.track(m.ClientMsgID, func() error {
		err := <-posted
		if err == nil {
			_, err = sent.Wait(r.ctx)
		}
		return err
	})
}

// track does something outgoing, and is its end for the model and for who leaves.
func (r *remote) track(id string, do func() error) tea.Cmd {
	s := &sending{done: make(chan struct{})}
	r.mu.Lock()
	r.sendings[id] = s
	r.mu.Unlock()
	go func() { // ends with the answer or r.ctx
		why := ""
		if err := do(); err != nil {
			why = explain(r.options.Server, err).Error()
		}
		s.end(why)
	}()
	return func() tea.Msg {
		<-s.done
		return sentMsg{id, s.why}
	}
}

func (r *remote) approve(id, question string, yes bool, args string) tea.Cmd {
	text := fmt.Sprintf(`{"approve":%v}`, yes)
	if args != "" {
		text = fmt.Sprintf(`{"approve":%v,"args":%s}`, yes, args)
	}
	return r.say(parley.Message{ClientMsgID: id, Question: question, Text: text})
}

func (r *remote) edit(id, message, text string) tea.Cmd {
	session := r.session()
	return r.track(id, func() error { return r.client.Edit(r.ctx, session, message, text) })
}

func (r *remote) withdraw(message string) tea.Cmd {
	return r.try("", func(ctx context.Context, session string) error { return r.client.Withdraw(ctx, session, message) })
}

func (r *remote) stop() tea.Cmd {
	return r.try("", func(ctx context.Context, session string) error {
		_, err := r.client.Cancel(ctx, session, parley.Cancel{})
		if parley.CodeOf(err) == parley.NotFound {
			return errors.New("nothing runs")
		}
		return err
	})
}

func (r *remote) clear() tea.Cmd {
	return r.try("models do not see what was before", func(ctx context.Context, session string) error { return r.client.Clear(ctx, session) })
}

func (r *remote) open(session string) tea.Cmd {
	return func() tea.Msg {
		if session == "" {
			return openedMsg(r.unmade())
		}
		if _, err := r.client.Session(r.ctx, session); err != nil {
			return noticeMsg(explain(r.options.Server, err).Error())
		}
		return openedMsg(session)
	}
}

func (r *remote) attach(path string) tea.Cmd {
	return func() tea.Msg {
		f, err := readFile(home(path))
		if err != nil {
			return noticeMsg(err.Error())
		}
		type place struct {
			session string
			err     error
		}
		found := make(chan place, 1)
		r.within(func(session string, err error) { found <- place{session, err} })
		to := <-found
		var made []parley.Attachment
		if err = to.err; err == nil {
			made, err = upload(r.ctx, r.client, to.session, []file{f})
		}
		if err != nil {
			return noticeMsg(explain(r.options.Server, err).Error())
		}
		return attachedMsg(made)
	}
}

// listed is how many sessions /sessions shows.
const listed = 15

func (r *remote) list() tea.Cmd {
	return func() tea.Msg {
		var rows listMsg
		for s, err := range r.client.Sessions(r.ctx) {
			if err != nil {
				return noticeMsg(explain(r.options.Server, err).Error())
			}
			if rows = append(rows, s); len(rows) == listed {
				break
			}
		}
		return rows
	}
}
