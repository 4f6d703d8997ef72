package chat

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"parley/conversation"
)

// Result is what a command answers.
type Result struct {
	Success bool   `json:"success"`
	Message string `json:"message"`
}

// commandSpec is one command.
type commandSpec struct {
	name  string
	args  string // for help; "" = none
	does  string
	needs permission
	run   func(r *room, ctx context.Context, u Update, args string) (Result, error)
}

// commands are all there are, in the order of help.
func commands() []commandSpec {
	return []commandSpec{
		{"ask", "QUESTION", "asks the agent", read, (*room).ask},
		{"status", "", "shows what is being worked on and what waits", read, (*room).status},
		{"answer", "[NUMBER or TEXT]", "answers the open question", write, (*room).answerNewest},
		{"cancel", "[all]", "ends the task that runs; all: what waits as well", write, (*room).cancel},
		{"mode", "[MODE]", "shows or sets what a message does while a task runs: " + strings.Join(modes, ", "), write, (*room).mode},
		{"clear", "", "begins anew: nothing said so far is shown to the agent any more", write, (*room).clear},
		{"help", "", "shows this list", read, (*room).help},
	}
}

// CommandInfo is what a platform has to know of a command that it offers to its users itself.
type CommandInfo struct {
	Name    string
	Args    string // as help shows them; "" = there are none, in brackets = they may be left out
	Does    string
	Choices []string // what Args may be; nil = any text
}

// Commands are all commands, in the order of help.
func Commands() []CommandInfo {
	choices := map[string][]string{"cancel": {"all"}, "mode": modes}
	var infos []CommandInfo
	for _, c := range commands() {
		infos = append(infos, CommandInfo{c.name, c.args, c.does, choices[c.name]})
	}
	return infos
}

var modes = []string{"steer", "queue", "collect", "interrupt", "reject"}

// command takes a command apart: "/ask@bot What?" is ask, "What?". A path such as /etc/hosts is
// no command, and neither is anything that does not stand at the beginning.
func command(text string) (name, args string, is bool) {
	text = strings.TrimSpace(text)
	if !strings.HasPrefix(text, "/") {
		return "", "", false
	}
	head, rest := text[1:], ""
	if at := strings.IndexFunc(head, unicode.IsSpace); at >= 0 {
		head, rest = head[:at], head[at:]
	}
	name, _, _ = strings.Cut(head, "@")
	if name == "" || strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) {
		return "", "", false
	}
	return strings.ToLower(name), strings.TrimSpace(rest), true
}

// known is true for the name of a command.
func known(name string) bool {
	return slices.ContainsFunc(commands(), func(c commandSpec) bool { return c.name == name })
}

// command does what a command says and answers it. Nothing of it comes to a model but the
// question of ask and the answer of answer.
func (r *room) command(ctx context.Context, u Update, may permission, name, args string) error {
	all := commands()
	at := slices.IndexFunc(all, func(c commandSpec) bool { return c.name == name })
	var result Result
	var err error
	switch {
	case name == "start" && args == "" || at < 0: // start is what Telegram says for the first time
		result, err = r.help(ctx, u, "")
		if name != "start" {
			result = Result{Message: fmt.Sprintf("There is no command %s%s.\n\n%s", r.c.traits.Prefix, name, result.Message)}
		}
	case may < all[at].needs:
		r.c.refused("permission")
		result = Result{Message: Texts.MayNot}
	default:
		result, err = all[at].run(r, ctx, u, args)
	}
	outcome := "ok"
	if !result.Success {
		outcome = "refused"
	}
	label := name
	if at < 0 {
		label = "unknown"
	}
	r.c.d.Metrics.Commands.WithLabelValues(string(r.c.Name()), label, outcome).Inc()
	if err != nil || result.Message == "" {
		return err
	}
	return r.reply(ctx, u, result.Message)
}

// ask says a question; it is for who may only read, too, and where free text is not meant for
// the bot. Its answer comes as any other does.
func (r *room) ask(ctx context.Context, u Update, args string) (Result, error) {
	if args == "" && len(u.Files) == 0 {
		return Result{Message: "Usage: " + r.c.traits.Prefix + "ask QUESTION"}, nil
	}
	return Result{Success: true}, r.say(ctx, u, args)
}

func (r *room) help(context.Context, Update, string) (Result, error) {
	var b strings.Builder
	b.WriteString("Write to me, or use a command:\n")
	for _, c := range commands() {
		b.WriteString(strings.TrimRight(r.c.traits.Prefix+c.name+" "+c.args, " ") + " – " + c.does + "\n")
	}
	return Result{true, strings.TrimRight(b.String(), "\n")}, nil
}

// nothingYet is the answer to commands about a session in a chat that has none.
var nothingYet = Result{true, "Nothing has been asked here yet."}

func (r *room) status(ctx context.Context, u Update, _ string) (Result, error) {
	v, is, err := r.shown(ctx)
	if err != nil || !is {
		return nothingYet, err
	}
	running, waiting := 0, 0
	for _, t := range v.Tasks {
		switch t.Status {
		case conversation.TaskRunning:
			running++
		case conversation.TaskQueued:
			waiting++
		}
	}
	var b strings.Builder
	switch {
	case running == 0 && waiting == 0 && len(v.Questions) == 0:
		b.WriteString("Nothing is being worked on.")
	default:
		fmt.Fprintf(&b, "Tasks: %d running, %d waiting. Messages not read yet: %d.", running, waiting, len(v.Inbox))
	}
	for i, q := range asked(v) {
		fmt.Fprintf(&b, "\nOpen question %d: %s", i+1, q.Asked.Text)
	}
	for _, c := range v.Calls {
		if c.Caller {
			fmt.Fprintf(&b, "\nA program is to give the result of %s.", c.Tool)
		}
	}
	return Result{true, b.String()}, nil
}

// asked are the open questions that people are asked. What a program that brought tools is
// asked stands in no chat, and nobody there answers it by accident.
func asked(v conversation.View) []conversation.QuestionView {
	return slices.DeleteFunc(slices.Clone(v.Questions), func(q conversation.QuestionView) bool { return v.AsksCaller(q.Asked) })
}

// shown is the chat's session, if there is one.
func (r *room) shown(ctx context.Context) (v conversation.View, is bool, err error) {
	known, err := r.load(ctx)
	if err != nil || !known {
		return v, false, err
	}
	v, err = r.view(ctx)
	if gone(err) {
		return v, false, nil
	}
	return v, err == nil, err
}

func (r *room) answerNewest(ctx context.Context, u Update, args string) (Result, error) {
	v, is, err := r.shown(ctx)
	if err != nil {
		return Result{}, err
	}
	open := asked(v)
	if !is || len(open) == 0 {
		return Result{Message: Texts.QuestionClosed}, nil
	}
	q := open[len(open)-1]
	for _, other := range open { // a blocking one goes first, as with the reply route
		if other.Asked.Blocking {
			q = other
		}
	}
	if args == "" {
		usage := "Usage: " + r.c.traits.Prefix + "answer TEXT\nThe open question: " + q.Asked.Text
		for i, c := range q.Asked.Choices {
			usage += fmt.Sprintf("\n%d. %s", i+1, c)
		}
		return Result{Message: usage}, nil
	}
	if n, err := strconv.Atoi(args); err == nil && n >= 1 && n <= len(q.Asked.Choices) {
		args = q.Asked.Choices[n-1]
	}
	return Result{Success: true}, r.answer(ctx, u, q.Asked.Question, args)
}

func (r *room) cancel(ctx context.Context, u Update, args string) (Result, error) {
	_, is, err := r.shown(ctx)
	if err != nil || !is {
		return nothingYet, err
	}
	_, err = r.tell(ctx, conversation.Cancel{
		By: conversation.ByUser, Author: r.author(u), ClientMsgID: clientID(u), Drop: strings.EqualFold(args, "all"),
	})
	if refusal := told(err); refusal != nil {
		return *refusal, nil
	}
	return Result{true, "I am ending it."}, err
}

func (r *room) mode(ctx context.Context, u Update, args string) (Result, error) {
	if args != "" && !slices.Contains(modes, strings.ToLower(args)) {
		return Result{Message: "Usage: " + r.c.traits.Prefix + "mode [" + strings.Join(modes, "|") + "]"}, nil
	}
	if args == "" {
		v, is, err := r.shown(ctx)
		if err != nil {
			return Result{}, err
		}
		if own, set := v.Policy["inbox.mode"]; is && set {
			return Result{true, "The mode of this chat is " + strings.Trim(string(own), `"`) + "."}, nil
		}
		return Result{true, "This chat has no mode of its own: the server's setting holds."}, nil
	}
	if err := r.open(ctx, u); err != nil {
		return Result{}, err
	}
	_, err := r.tell(ctx, conversation.Update{By: r.c.owner.User, Policy: conversation.Overrides{"inbox.mode": raw(strings.ToLower(args))}})
	if refusal := told(err); refusal != nil {
		return *refusal, nil
	}
	return Result{true, "From now on: " + strings.ToLower(args) + "."}, err
}

func (r *room) clear(ctx context.Context, u Update, _ string) (Result, error) {
	_, is, err := r.shown(ctx)
	if err != nil || !is {
		return nothingYet, err
	}
	_, err = r.tell(ctx, conversation.Clear{By: r.author(u)})
	if refusal := told(err); refusal != nil {
		return *refusal, nil
	}
	return Result{true, "Done. Nothing said so far is shown to the agent any more."}, err
}

// told is what a refusal tells the person; nil = err is none, or will pass.
func told(err error) *Result {
	var e *conversation.Error
	if !errors.As(err, &e) || transient(e) {
		return nil
	}
	return &Result{Message: e.Message}
}

// Texts are what channels say by themselves.
var Texts = struct {
	QuestionClosed string
	Repeated       string // stands at the end of a message that was perhaps sent before
	MayNot         string
	ReadersAsk     func(prefix string) string
}{
	QuestionClosed: "This question is not open any more.",
	Repeated:       "(may be a repeat)",
	MayNot:         "You may not use this command here.",
	ReadersAsk:     func(prefix string) string { return "Here you may ask with " + prefix + "ask QUESTION." },
}
