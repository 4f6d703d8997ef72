package state

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"parley/conversation"
	"parley/conversation/machine/internal/receipts"
)

// What a session remembers to judge whether a text answers a message: words, never texts.

// heard is what a session remembers of its models' answers.
type heard struct {
	Answers []answer `json:",omitempty"` // the last parts that answered messages, oldest first
	Habits  []habit  `json:",omitempty"` // of the agents that have answered here
}

// answer is a part that answered a message. There are many of them, so that its words and
// those of the message share their memory.
type answer struct {
	Task uint32 // its number
	Said int    // how many of All the part has; the others are the message's
	All  receipts.Words
}

func (a *answer) words() receipts.Words { return a.All[:a.Said] }

// Shown is an unattributed part: several messages were open when the task showed it.
type Shown struct {
	Part  conversation.PartIndex
	Words receipts.Words // OpenWords of them
	Short receipts.Words `json:",omitempty"` // PartWords of them, if it has more
}

func shown(p conversation.Part) Shown {
	s := Shown{Part: p.Index, Words: receipts.Of(p.Text, receipts.OpenWords)}
	if len(s.Words) > receipts.PartWords {
		s.Short = receipts.Of(p.Text, receipts.PartWords)
	}
	return s
}

func (s *Shown) short() receipts.Words {
	if s.Short != nil {
		return s.Short
	}
	return s.Words
}

// Unnamed is a part that respondToUser showed without the name of a message. It is
// judged when the next answer shows that the work is done.
type Unnamed struct {
	Part  conversation.PartIndex
	Seq   conversation.Seq // what was read before it is what it may answer
	Step  conversation.StepNumber
	Words receipts.Words
}

// How many of them are remembered.
const (
	maxAnswers = 16 // of a session
	maxShown   = 16 // of a task
	maxUnnamed = 16 // of a task
)

// Told are the last parts that answered messages of the session.
// Rule 8.7.
func (h *heard) Told() []receipts.Told {
	if h == nil {
		return nil
	}
	all := make([]receipts.Told, len(h.Answers))
	for i, a := range h.Answers {
		all[i] = receipts.Told{Words: a.words(), Asked: a.All[a.Said:]}
	}
	return all
}

// of is the habit of an agent.
func (h *heard) of(agent conversation.AgentName) habit {
	if h != nil {
		for _, habit := range h.Habits {
			if habit.Agent == agent {
				return habit
			}
		}
	}
	return habit{}
}

// Names is true once an agent's model has named a message: it may read all at once.
// Rule 2.20.
func (h *heard) Names(agent conversation.AgentName) bool { return h.of(agent).Names }

// IgnoresClosing is true for an agent whose model had nothing to say to the last closing
// nudge.
// Rule 8.13.
func (h *heard) IgnoresClosing(agent conversation.AgentName) bool { return h.of(agent).Ignores }

// hear is what the session remembers; it is never nil.
func hear(st *State) *heard {
	if st.Heard == nil {
		st.Heard = &heard{}
	}
	return st.Heard
}

// SaidBefore is true for a text of which a part of the task has all words, and no others,
// unless it only acknowledges something.
func (t *Task) SaidBefore(h *heard, text string) bool {
	words := receipts.Of(text, receipts.PartWords)
	if words.Acknowledge() {
		return false
	}
	return h != nil && slices.ContainsFunc(h.Answers, func(a answer) bool { return a.Task == t.N && receipts.Equal(a.words(), words) }) ||
		slices.ContainsFunc(t.Shown, func(s Shown) bool { return receipts.Equal(s.short(), words) }) ||
		t.LastPart != nil && receipts.Equal(receipts.Of(t.LastPart.Text, receipts.PartWords), words)
}

// applyResolved lets go of a message. What answered it is remembered: said once more,
// it answers no other message.
func applyResolved(st *State, t *Task, b conversation.MessageResolved) {
	m := t.Message(b.Message)
	t.drop(b.Message)
	retold := t.Retold
	if t.Alone == b.Message {
		t.Alone, t.Retold = "", nil
	} else {
		retold = nil
	}
	if b.How != conversation.ResolvedAnswered || b.Part == nil || b.Evidence == conversation.EvidenceSeen {
		return
	}
	said := t.partSaid(*b.Part)
	if len(retold) > 0 {
		said = retold
	}
	if said.Acknowledge() {
		return // it may answer any other message as well
	}
	h := hear(st)
	if len(h.Answers) == maxAnswers {
		h.Answers = append(make([]answer, 0, maxAnswers), h.Answers[1:]...)
	}
	h.Answers = append(h.Answers, answer{t.N, len(said), slices.Concat(said, m.Words)})
}

// partSaid are the words of a part of the task, as far as they are remembered.
func (t *Task) partSaid(part conversation.PartIndex) receipts.Words {
	for _, u := range t.Unnamed {
		if u.Part == part {
			return u.Words
		}
	}
	for _, s := range t.Shown {
		if s.Part == part {
			return s.short()
		}
	}
	if p := t.LastPart; p != nil && p.Index == part {
		return receipts.Of(p.Text, receipts.PartWords)
	}
	return nil
}

// Said finds the part shown while several messages were open that says already what a text
// says of a message.
// Rule 8.12.
func (t *Task) Said(text string, message receipts.Words) (conversation.PartIndex, bool) {
	parts := make([]receipts.Words, len(t.Shown))
	for i, s := range t.Shown {
		parts[i] = s.Words
	}
	if i := receipts.Within(receipts.Of(text, receipts.OpenWords), message, parts); i >= 0 {
		return t.Shown[i].Part, true
	}
	return 0, false
}

// Closest is the part shown while several messages were open that has most of a message's
// words, of equals the last one; the last part of all if there is none.
func (t *Task) Closest(message receipts.Words) conversation.PartIndex {
	parts := make([]receipts.Words, len(t.Shown))
	for i, s := range t.Shown {
		parts[i] = s.Words
	}
	if i := receipts.Closest(message, parts); i >= 0 {
		return t.Shown[i].Part
	}
	return t.LastPart.Index
}

// noteShown remembers the words of a part that is shown while several messages are open.
// Rule 8.12.
func (t *Task) noteShown(p conversation.Part) {
	if len(t.Messages) < 2 || t.Messages[1].Read == 0 {
		return
	}
	if t.Shown = append(t.Shown, shown(p)); len(t.Shown) > maxShown {
		t.Shown = slices.Clone(t.Shown[len(t.Shown)-maxShown:])
	}
}

// habit is how an agent's model deals with the engine's tools in this session.
type habit struct {
	Agent   conversation.AgentName
	Names   bool `json:",omitempty"` // it has said of a message what became of it without having been asked
	Ignores bool `json:",omitempty"` // asked by a closing nudge for calls alone, it called nothing that holds
}

// noteHabit learns from an answer.
func noteHabit(st *State, step *Step, b conversation.StepFinished) {
	if b.Outcome != conversation.StepOK || step.Form != conversation.NudgePlain && step.Form != conversation.NudgeClosing {
		return
	}
	holds := slices.ContainsFunc(b.Items, func(i conversation.Item) bool { return names(i, b.Results) })
	closing := step.Form == conversation.NudgeClosing
	if !closing && !holds {
		return
	}
	all := &hear(st).Habits
	i := slices.IndexFunc(*all, func(h habit) bool { return h.Agent == step.Agent })
	if i < 0 {
		i, *all = len(*all), append(*all, habit{Agent: step.Agent})
	}
	switch h := &(*all)[i]; {
	case !closing:
		h.Names, h.Ignores = true, false
	case holds:
		h.Ignores = false
	default:
		h.Names, h.Ignores = false, true
	}
}

// names is true for a call that says of a message what became of it.
func names(i conversation.Item, results []conversation.CallResult) bool {
	if i.Kind != conversation.ItemCall || i.Tool != conversation.ToolCover && i.Tool != conversation.ToolRespond {
		return false
	}
	for _, r := range results {
		if r.ID == i.ID {
			return r.Text == conversation.ResultCovered || r.Text == conversation.ResultDelivered && named(i)
		}
	}
	return false
}

// named is true for a respondToUser with a name of a message, whichever.
func named(i conversation.Item) bool {
	var args struct{ InReplyTo, MessageID json.RawMessage }
	return json.Unmarshal([]byte(i.Args), &args) == nil && (isName(args.InReplyTo) || isName(args.MessageID))
}

func isName(raw json.RawMessage) bool {
	return len(bytes.Trim(raw, `" `)) > 0 && !bytes.Equal(raw, []byte("null"))
}

// Quiet is true for a call of which the model needs no news: it was asked for just that.
// Rule 2.12.
func Quiet(form conversation.NudgeForm, i conversation.Item) bool {
	return form == conversation.NudgeClosing || form == conversation.NudgeJudged || form == conversation.NudgeAlone && i.Tool == conversation.ToolRespond
}

// applyNudge: the reminder is unseen, and each message that it names was reminded of.
func (t *Task) applyNudge(b conversation.CoverageNudge) {
	t.Nudges, t.UnseenInput, t.Form = b.Nudge, true, b.Form
	if len(b.Questions) > 0 {
		t.Form = conversation.NudgeQuestion // old logs do not say so
	}
	t.Alone, t.Retold, t.Unnamed = "", nil, nil // what was said before was judged
	for _, id := range b.Messages {
		m := t.Message(id)
		switch {
		case m == nil:
		case b.Form == conversation.NudgeClosing, b.Form == conversation.NudgeJudged:
			m.Closing = true
		case len(b.Questions) > 0:
			m.Clarified = true
		default:
			m.Nudged++
			if b.Form == conversation.NudgeAlone {
				t.Alone = id
			}
		}
	}
}

// notePieces remembers the words of an answer that may be gone on with.
// Rule 8.6.
func (t *Task) notePieces(b conversation.StepFinished) {
	if b.Stop != conversation.StopLength {
		return
	}
	for _, item := range b.Items {
		if item.Kind == conversation.ItemText {
			t.Pieces = t.Pieces.And(receipts.Of(item.Text, receipts.PartWords), receipts.PartWords)
		}
	}
}

// noteSaying remembers what an answer says by respondToUser, until its parts come; and of
// one message alone, however it says it.
func (t *Task) noteSaying(b conversation.StepFinished) {
	t.Saying, t.Retold = nil, nil
	for _, item := range b.Items {
		said := item.Text
		if item.Kind == conversation.ItemCall {
			var args struct {
				Message              string
				InReplyTo, MessageID json.RawMessage
			}
			if item.Tool != conversation.ToolRespond || json.Unmarshal([]byte(item.Args), &args) != nil {
				continue
			}
			if said = args.Message; !t.namesAnother(args.InReplyTo) && !t.namesAnother(args.MessageID) {
				t.Saying = append(t.Saying, TextKey(said))
			}
		}
		if t.Alone != "" {
			t.Retold = t.Retold.And(receipts.Of(said, receipts.PartWords), receipts.PartWords)
		}
	}
}

// namesAnother is true for the name of a message that the task has read, open or not: what
// names it is said to it. Any other name is none.
func (t *Task) namesAnother(name json.RawMessage) bool {
	text := strings.Trim(string(name), `" []`)
	n, err := strconv.Atoi(text)
	_, session, _ := strings.Cut(string(t.id), "-")
	return err == nil && n >= 1 && n <= t.Numbered || strings.HasSuffix(text, "-"+session) && conversation.Ordinal(text, 'm') > 0
}

// forgetUnnamed keeps what the last answer said; what one before it said was judged
// by now, or never will be.
func (t *Task) forgetUnnamed() {
	t.Saying = nil
	if t.Unnamed = slices.DeleteFunc(slices.Clone(t.Unnamed), func(u Unnamed) bool { return u.Step != t.LastStep }); len(t.Unnamed) == 0 {
		t.Unnamed = nil
	}
}

// noteUnnamed remembers a part that respondToUser showed without a name.
func (t *Task) noteUnnamed(e conversation.Event, p conversation.Part) {
	if !p.Guessed || !slices.Contains(t.Saying, TextKey(p.Text)) {
		return
	}
	if len(t.Unnamed) < maxUnnamed {
		t.Unnamed = append(t.Unnamed, Unnamed{Part: p.Index, Seq: e.Seq, Step: t.LastStep, Words: receipts.Of(p.Text, receipts.PartWords)})
	}
}
