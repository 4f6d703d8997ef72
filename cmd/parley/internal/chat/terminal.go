package chat

import (
	"context"
	"errors"
	"fmt"
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
	openedMsg   string // another session is shown from now on
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
	follow(session string)
	list() tea.Cmd
	attach(path string) tea.Cmd // attachedMsg comes of it
}

// runTerminal shows a session on the whole terminal.
func runTerminal(ctx context.Context, client *parley.Client, session string, o Options, connection <-chan parley.Connection, files []parley.Attachment) int {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a := &remote{ctx: ctx, client: client, options: o, sendings: map[string]*sending{}}
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
	if !errors.As(err, &refused) || refused.Code != parley.NotFound {
		fmt.Fprintf(o.Out, "What the server has taken goes on there. To come back: %s\n", o.comeBack(a.session))
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
	session string
	end     context.CancelFunc

	mu       sync.Mutex
	sendings map[string]*sending
}

// follow shows a session from its beginning, a long one from its newest events.
func (r *remote) follow(session string) {
	if r.end != nil {
		r.end()
	}
	ctx, cancel := context.WithCancel(r.ctx)
	r.session, r.end = session, cancel
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

// try is an action whose error is a line for people.
func (r *remote) try(done string, do func(ctx context.Context) error) tea.Cmd {
	return func() tea.Msg {
		if err := do(r.ctx); err != nil {
			return noticeMsg(explain(r.options.Server, err).Error())
		}
		if done == "" {
			return nil
		}
		return noticeMsg(done)
	}
}

func (r *remote) say(m parley.Message) tea.Cmd {
	m.Session = r.session
	if m.Question == "" {
		m.Mode = r.options.Mode
	}
	sent, err := r.client.Post(m) // here, so that the order is that of the keys
	return r.track(m.ClientMsgID, func() error {
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
	session := r.session
	return r.track(id, func() error { return r.client.Edit(r.ctx, session, message, text) })
}

func (r *remote) withdraw(message string) tea.Cmd {
	session := r.session
	return r.try("", func(ctx context.Context) error { return r.client.Withdraw(ctx, session, message) })
}

func (r *remote) stop() tea.Cmd {
	session := r.session
	return r.try("", func(ctx context.Context) error {
		_, err := r.client.Cancel(ctx, session, parley.Cancel{})
		if parley.CodeOf(err) == parley.NotFound {
			return errors.New("nothing runs")
		}
		return err
	})
}

func (r *remote) clear() tea.Cmd {
	session := r.session
	return r.try("models do not see what was before", func(ctx context.Context) error { return r.client.Clear(ctx, session) })
}

func (r *remote) open(session string) tea.Cmd {
	return func() tea.Msg {
		if session == "" {
			made, err := r.client.Create(r.ctx, parley.NewSession{Agent: r.options.Agent})
			if err != nil {
				return noticeMsg(explain(r.options.Server, err).Error())
			}
			session = made
		} else if _, err := r.client.Session(r.ctx, session); err != nil {
			return noticeMsg(explain(r.options.Server, err).Error())
		}
		return openedMsg(session)
	}
}

func (r *remote) attach(path string) tea.Cmd {
	session := r.session
	return func() tea.Msg {
		f, err := readFile(home(path))
		if err != nil {
			return noticeMsg(err.Error())
		}
		made, err := upload(r.ctx, r.client, session, []file{f})
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
