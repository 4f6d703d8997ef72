package command

import (
	"encoding/json"
	"slices"
	"strings"

	"parley/conversation"
	"parley/conversation/author"
)

// A command-line agent is stateless: its prompt holds the whole context, in the words
// of.
const (
	contextHead = "Previous conversation context:"
	currentHead = "Current message:"
	outputHead  = "[Previous Output]"
	replyHead   = "[User Reply]"
	goOnHead    = "[Continue Task]"
	goOn        = "Continue the task with the user's reply; do not start it over."
	nothingNew  = "Continue with the task."
)

// turn is a pair of the window: a user's message and its answer.
type turn struct{ user, assistant string }

// round is the text of the current task up to a question, and the reply to that.
type round struct{ output, reply string }

// prompt holds the parts of the agent's prompt.
type prompt struct {
	summary string  // of the conversation before the window
	turns   []turn  // the window, oldest first
	message string  // the current message
	rounds  []round // its questions since, with their replies
	named   bool    // what users said begins with a line that says who
	guarded bool    // it is to be text only to the program
}

// readPrompt finds the prompt in a request, with the newest pairs of turns and
// of rounds. A message without an answer is no turn: the turns that failed
// leave nothing behind.
func readPrompt(r *conversation.Request, marker string, pairs int) prompt {
	entries := r.Entries // without the note: the list of open messages is for agents that can name them
	p := prompt{named: r.Named}
	var turns []*turn
	threads := map[conversation.TaskID]*thread{r.Task: {named: r.Named}}
	for i := 0; i < len(entries); i++ {
		e := &entries[i]
		if e.Task == "" && e.Task != r.Task && isGenerated(e) {
			p.summary = e.Text
			continue
		}
		th := threads[e.Task]
		if th == nil {
			th = &thread{named: r.Named}
			threads[e.Task] = th
		}
		switch e.Role {
		case conversation.RoleUser:
			if e.Question != "" && e.CallID == "" { // only a question in plain text has no call
				th.replied(e.Text)
				continue
			}
			th.pending = append(th.pending, e.Text)
		case conversation.RoleAssistant:
			results := map[string]string{}
			for ; i+1 < len(entries) && entries[i+1].Role == conversation.RoleTool; i++ {
				results[entries[i+1].CallID] = entries[i+1].Text
			}
			if t := th.answer(e.Items, results, marker); t != nil {
				turns = append(turns, t)
			}
		}
	}
	own := threads[r.Task]
	p.message, p.rounds = own.current()
	for _, t := range turns {
		if !slices.Contains(own.asked.run, t) { // the rounds tell it already
			p.turns = append(p.turns, *t)
		}
	}
	p.turns = newest(p.turns, pairs)
	p.rounds = newest(p.rounds, pairs)
	return p
}

func newest[T any](list []T, n int) []T { return list[max(0, len(list)-n):] }

// isGenerated reports whether the engine generated an entry that brings no news.
func isGenerated(e *conversation.Entry) bool {
	return e.Role == conversation.RoleUser && e.Message == "" && e.Question == "" && e.Delegation == "" && len(e.Nudge) == 0
}

// thread is the course of one task so far.
type thread struct {
	named   bool     // what users said begins with a line that says who
	pending []string // since its last answer
	asked   asked    // the questions since the last answer that asked nothing

	// The last answer, if it called for no reply, and asked as it was before it: it may
	// have asked in plain text, which shows when its reply comes.
	last   *turn
	before asked
}

// asked holds the questions of a task that follow each other without another answer.
type asked struct {
	message string // the message before the first of them
	rounds  []round
	run     []*turn // the same as turns
}

// add adds an answer that asked, with its reply.
func (a asked) add(t *turn, reply string) asked {
	if len(a.rounds) == 0 {
		a.message = t.user
	} else if last := &a.rounds[len(a.rounds)-1]; t.user != last.reply {
		last.reply = t.user // more was said with the reply
	}
	a.rounds, a.run = append(a.rounds, round{t.assistant, reply}), append(a.run, t)
	return a
}

// answer adds an answer of the task's agent. It returns nil if the answer had nothing
// for the user.
func (th *thread) answer(items []conversation.Item, results map[string]string, marker string) *turn {
	output, reply := answerText(items, results, marker, th.named)
	if th.named { // the arguments of its calls are shown as text here
		output = author.Escape(output)
	}
	if output == "" {
		return nil
	}
	t := &turn{user: strings.Join(th.pending, "\n\n"), assistant: output}
	th.pending = nil
	if reply == "" {
		th.last, th.before, th.asked = t, th.asked, asked{}
		return t
	}
	th.last, th.asked = nil, th.asked.add(t, reply)
	th.pending = []string{reply}
	return t
}

// replied adds the reply to a question that the last answer asked in plain text.
func (th *thread) replied(text string) {
	if th.last != nil {
		th.asked, th.last = th.before.add(th.last, text), nil
	}
	th.pending = append(th.pending, text)
}

// current returns the message that is to be answered: the text since the last answer,
// or, if that answer asked, the message before it with the questions and replies.
func (th *thread) current() (message string, rounds []round) {
	heard := strings.Join(th.pending, "\n\n")
	if len(th.asked.rounds) > 0 {
		rounds = slices.Clone(th.asked.rounds)
		rounds[len(rounds)-1].reply = heard
		return th.asked.message, rounds
	}
	if heard == "" {
		heard = nothingNew
	}
	return heard, nil
}

// answerText returns the text of an answer's items for the user, and the replies to its
// questions that have come.
func answerText(items []conversation.Item, results map[string]string, marker string, named bool) (output, reply string) {
	var said, questions, replies []string
	for _, item := range items {
		if item.Kind == conversation.ItemText {
			said = append(said, item.Text)
			continue
		}
		var args struct{ Message, Question string }
		_ = json.Unmarshal([]byte(item.Args), &args) // without them it said nothing
		switch item.Tool {
		case conversation.ToolRespond:
			said = append(said, args.Message)
		case conversation.ToolAsk:
			said = append(said, strings.TrimSpace(marker+" "+args.Question))
			if text, known := results[item.ID]; known && text != conversation.NoResult { // else a question that is still open
				questions, replies = append(questions, args.Question), append(replies, text)
			}
		}
	}
	if len(replies) > 1 {
		for i := range replies {
			if named {
				questions[i] = author.Escape(questions[i])
			}
			replies[i] = "> " + questions[i] + "\n" + replies[i]
		}
	}
	said = slices.DeleteFunc(said, func(s string) bool { return strings.TrimSpace(s) == "" })
	return strings.Join(said, "\n\n"), strings.Join(replies, "\n\n")
}

// userHead begins what a user said. The line that says who it was stands by itself: behind
// another word a line of any text could look the same.
func (p prompt) userHead(said string) string {
	if header, _ := author.Cut(said); p.named && header != "" {
		return "User:\n"
	}
	return "User: "
}

// String returns the prompt in its own words. The first message of a
// conversation is sent bare.
func (p prompt) String() string {
	var b strings.Builder
	if p.summary != "" || len(p.turns) > 0 {
		b.WriteString(contextHead + "\n")
		if p.summary != "" {
			b.WriteString(p.summary + "\n")
		}
		for _, t := range p.turns {
			if t.user != "" {
				b.WriteString(p.userHead(t.user) + t.user + "\n")
			}
			b.WriteString("Assistant: " + t.assistant + "\n")
		}
		b.WriteString("\n" + currentHead + "\n")
	}
	b.WriteString(p.message)
	for _, r := range p.rounds {
		b.WriteString("\n\n" + outputHead + "\n" + r.output + "\n\n" + replyHead + "\n" + r.reply)
	}
	if len(p.rounds) > 0 {
		b.WriteString("\n\n" + goOnHead + "\n" + goOn)
	}
	return b.String()
}

// The limits of an argument. Linux takes 128 KiB with the zero byte at its end
// (MAX_ARG_STRLEN); prompts leave the rest to long environments.
const (
	maxArg  = 128<<10 - 1
	autoArg = 96 << 10
)

// delivery is a prompt on its way to the agent.
type delivery struct {
	text   string
	stdin  bool // by standard input instead of an argument
	broken bool // mentions were broken up

	instructions string // what goes with it, by Options.PromptArg; "" = nothing
}

// deliver returns the prompt's text and its way to the agent. ok is false if it does not
// fit into an argument even without its turns.
func (p prompt) deliver(via PromptVia) (d delivery, ok bool) {
	switch via {
	case PromptStdin:
		d = p.text(false)
		d.stdin = true
		return d, true
	case PromptArg:
		d = p.text(true)
		for len(d.text) > maxArg && len(p.turns) > 0 {
			p.turns = p.turns[1:]
			d = p.text(true)
		}
		return d, len(d.text) <= maxArg
	default:
		d = p.text(false)
		d.stdin = len(d.text) > autoArg || strings.HasPrefix(d.text, "-") || strings.ContainsRune(d.text, 0)
		return d, true
	}
}

// text returns the prompt as the agent gets it, as an argument or not.
func (p prompt) text(arg bool) (d delivery) {
	d.text = p.String()
	if arg {
		d.text = strings.ReplaceAll(d.text, "\x00", "") // no argument can hold a zero byte
	}
	if p.guarded {
		d.text, d.broken = harmless(d.text)
	}
	if arg && strings.HasPrefix(d.text, "-") { // the program would take it for an option
		d.text = currentHead + "\n" + d.text
	}
	return d
}
