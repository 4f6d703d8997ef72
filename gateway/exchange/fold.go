package exchange

import (
	"slices"
	"strings"
	"unicode/utf8"

	"parley/conversation"
	"parley/gateway/protocol"
)

// Fold makes notes of a session's events. The zero value begins at the first one.
type Fold struct {
	Redact bool // without arguments and results of tools

	seq     conversation.Seq
	last    Number
	attempt conversation.Attempt // the newest
	working conversation.TaskID  // whose that is
	open    *Item                // the text that streams; nil = none does
	owner   conversation.TaskID  // of open
	full    bool                 // no other text of the attempt is shown while it streams: it is told as a part
	ended   []*Item              // the last texts that have ended, for those that are made final later
	asked   []*conversation.QuestionView
	calls   []*CallState
	resume  Number // where a client stopped that goes on; 0 = none does
	notes   []Note
}

// NewFold begins behind an event. A client that has been told all up to a number resumes; 0 = it
// has been told nothing.
func NewFold(since conversation.Seq, resumes Number, redact bool) *Fold {
	return &Fold{Redact: redact, seq: since, last: NumberAfter(since), resume: resumes}
}

// maxEnded is how many ended texts are kept in case that they are made final.
const maxEnded = 64

// Seq is the last event that the fold has taken.
func (f *Fold) Seq() conversation.Seq { return f.seq }

// Calls are those that run.
func (f *Fold) Calls() []*CallState { return f.calls }

// Questions are those that are open, in the order in which they were asked.
func (f *Fold) Questions() []*conversation.QuestionView { return f.asked }

// Event takes the next event. The notes are valid until the next call of a method.
func (f *Fold) Event(e *conversation.Event) []Note {
	f.begin()
	f.seq = e.Seq
	switch b := e.Body.(type) {
	case conversation.MessageAccepted:
		f.say(Note{Kind: Accepted, Event: e})
	case conversation.MessageResolved:
		f.say(Note{Kind: Resolved, Event: e})
	case conversation.TaskStatusChanged:
		if b.New.Ended() || b.New == conversation.TaskAwaiting {
			f.drop(e)
		}
		f.say(Note{Kind: Status, Event: e})
	case conversation.StepStarted:
		f.drop(e)
		f.attempt, f.working, f.full = conversation.Attempt{Step: b.Step, N: b.Attempt}, e.Task, false
		f.say(Note{Kind: Other, Event: e})
	case conversation.PartialResponse:
		f.part(e, b.Part, false, conversation.ResponsePlain)
	case conversation.Response:
		if b.Promoted {
			f.promote(e, b)
			break
		}
		f.part(e, b.Part, true, b.ResponseKind)
	case conversation.Asked:
		f.ask(e, b)
	case conversation.QuestionAnswered:
		f.close(e, b.Question)
	case conversation.QuestionClosed:
		f.close(e, b.Question)
	case conversation.ToolStarted:
		f.callBegan(e, &CallState{ID: b.Call, Tool: b.Tool, Args: b.Args, Callers: b.Caller, Begun: e.At})
	case conversation.ToolFinished:
		f.callEnded(e, b.Call, b.Status, b.Summary)
	case conversation.DelegationStarted:
		f.callBegan(e, &CallState{ID: b.Delegation, Agent: b.Agent, Args: b.Objective, Session: b.Session, Begun: e.At})
	case conversation.DelegationFinished:
		f.callEnded(e, b.Delegation, b.Status, b.Summary)
	default:
		f.say(Note{Kind: Other, Event: e})
	}
	return f.notes
}

// Stream takes what is not stored.
func (f *Fold) Stream(e conversation.Ephemeral) []Note {
	f.begin()
	switch b := e.(type) {
	case conversation.Delta:
		f.grow(b.Task, b.Draft, b.At, b.Text)
	case conversation.DraftDropped:
		if item := f.streaming(b.Task, b.Draft); item != nil {
			f.open = nil
			f.aside(Note{Kind: TextDropped, Task: b.Task, Item: item})
		}
	case conversation.Progress:
		if c := f.call(b.Call); c != nil {
			c.Note, c.Percent = b.Note, b.Percent
			f.aside(Note{Kind: CallProgress, Task: b.Task, Call: c})
		}
	case conversation.Thinking:
		f.aside(Note{Kind: Thinking, Task: b.Task})
	}
	return f.notes
}

// Draft takes the whole text of a draft as it is now.
func (f *Fold) Draft(d conversation.DraftView) []Note {
	f.begin()
	f.grow(d.Task, d.Draft, 0, d.Text)
	return f.notes
}

func (f *Fold) begin() {
	clear(f.notes)
	f.notes = f.notes[:0]
	f.takeUp()
}

// takeUp knows what the client was shown of a text that streamed where it stopped: its number
// says how much, and the open attempt which.
func (f *Fold) takeUp() {
	if f.resume == 0 || f.resume.Seq() > f.seq {
		return
	}
	was := f.resume
	f.resume = 0
	begun := was.slot() >= slotStreams || was.slot() != slotGrew && was.runes() > 0
	if was.Seq() < f.seq || was == NumberAfter(f.seq) || !begun || f.working == "" || f.open != nil || f.full {
		return
	}
	draft := conversation.Draft(f.attempt.Step, f.attempt.N, 0)
	f.open, f.owner, f.full = &Item{ID: draftItem(f.working, draft), Draft: draft, Runes: was.runes()}, f.working, true
}

// say tells the one note that an event is besides texts that begin and end with it.
func (f *Fold) say(n Note) {
	f.put(n, slotEvent)
}

// aside tells a note that has no number: it is not told again, and nothing counts it.
func (f *Fold) aside(n Note) {
	n.At = f.last
	f.notes = append(f.notes, n)
}

func (f *Fold) put(n Note, slot int) {
	runes := 0
	switch {
	case f.open != nil && f.open != n.Item && slot != slotDropped: // beside a text that streams
		if runes = f.open.Runes; slot == slotGrew {
			slot = slotWhole
		}
	case n.Kind == TextGrew:
		runes = n.Item.Runes
	}
	n.At, n.Own = place(f.seq, slot, runes), true
	if f.last = n.At; n.Event != nil {
		n.Time = n.Event.At
		if n.Task == "" {
			n.Task = n.Event.Task
		}
	}
	f.notes = append(f.notes, n)
}

// grow brings a text that streams to what it is at least. One text of an attempt is shown like
// that, the first: so a number says all that a client was shown.
func (f *Fold) grow(task conversation.TaskID, draft conversation.DraftID, from int, text string) {
	item := f.streaming(task, draft)
	if item == nil {
		if f.full || from > 0 || !draft.Of(f.attempt) {
			return // of a beginning that was missed the whole text follows
		}
		item = &Item{ID: draftItem(task, draft), Draft: draft, shown: []byte{}}
		f.open, f.owner, f.full = item, task, true
		f.put(Note{Kind: TextBegan, Task: task, Item: item}, slotStreams)
	}
	skip := item.Runes - from
	if skip < 0 {
		return // something between was missed: the whole text follows
	}
	rest := behind(text, skip)
	if from == 0 && len(text) > len(item.shown) {
		item.shown = append(item.shown[:0], text...)
	} else if from > 0 && item.shown != nil {
		item.shown = append(item.shown, rest...)
	}
	f.tell(item, task, nil, rest, slotStreamed)
}

// streaming is the text that streams, if it is of a draft.
func (f *Fold) streaming(task conversation.TaskID, draft conversation.DraftID) *Item {
	if draft == "" || f.open == nil || f.owner != task {
		return nil
	}
	if f.open.Draft != draft && f.open.shown == nil && draft.Of(f.attempt) {
		f.open.Draft, f.open.ID = draft, draftItem(task, draft) // the number did not say which
	}
	if f.open.Draft != draft {
		return nil
	}
	return f.open
}

// tell tells the next piece of a text.
func (f *Fold) tell(item *Item, task conversation.TaskID, e *conversation.Event, text string, slot int) {
	if text == "" {
		return
	}
	item.Runes += utf8.RuneCountInString(text)
	f.put(Note{Kind: TextGrew, Task: task, Event: e, Item: item, Delta: text}, slot)
}

// part ends a text: of a draft that was shown, or at once.
func (f *Fold) part(e *conversation.Event, p conversation.Part, final bool, kind conversation.ResponseKind) {
	item, rest := f.streaming(e.Task, p.Draft), p.Text
	switch {
	case item == nil:
	case item.shown == nil: // taken up in its middle
		rest = behind(p.Text, item.Runes)
	default:
		const spaces = " \t\r\n"
		was := strings.TrimLeft(string(item.shown), spaces)
		more, fits := strings.CutPrefix(p.Text, was)
		if !fits && strings.TrimRight(was, spaces) == strings.TrimRight(p.Text, spaces) {
			more, fits = "", true // outer spaces were shown, and are no part of what is stored
		}
		if rest = more; !fits { // the text has changed: what was shown counts no more
			f.drop(e)
			item, rest = nil, p.Text
		}
	}
	if item == nil {
		item = &Item{ID: ItemID(e.Task, p), Draft: p.Draft}
		f.put(Note{Kind: TextBegan, Event: e, Item: item}, slotBegan)
	} else {
		f.open = nil
		item.Runes = utf8.RuneCountInString(p.Text) - utf8.RuneCountInString(rest) // spaces before it do not count any more
	}
	item.Part, item.Final, item.Kind = p, final, kind
	f.tell(item, e.Task, e, rest, slotGrew)
	item.Text = p.Text
	f.put(Note{Kind: TextEnded, Event: e, Item: item}, slotEnded)
	if f.ended = append(f.ended, item); len(f.ended) > maxEnded {
		f.ended = slices.Delete(f.ended, 0, 1)
	}
}

// behind is text without its first n code points.
func behind(text string, n int) string {
	for i := range text {
		if n == 0 {
			return text[i:]
		}
		n--
	}
	return ""
}

// drop ends the text that streams, if any: nothing comes of it.
func (f *Fold) drop(e *conversation.Event) {
	if f.open != nil {
		item := f.open
		f.open = nil
		f.put(Note{Kind: TextDropped, Event: e, Task: f.owner, Item: item}, slotDropped)
	}
}

func (f *Fold) promote(e *conversation.Event, b conversation.Response) {
	for _, item := range f.ended {
		if item.Part.Message == b.Message {
			item.Final, item.Kind = true, b.ResponseKind
			f.say(Note{Kind: TextFinal, Event: e, Item: item})
			return
		}
	}
	item := &Item{ID: ItemID(e.Task, b.Part), Draft: b.Draft, Text: b.Text, Part: b.Part, Final: true, Kind: b.ResponseKind}
	f.say(Note{Kind: TextFinal, Event: e, Item: item})
}

func (f *Fold) ask(e *conversation.Event, b conversation.Asked) {
	if f.Redact && b.Approval != nil {
		approval := *b.Approval
		approval.Args = protocol.RedactedJSON
		b.Approval = &approval
	}
	q := &conversation.QuestionView{Task: e.Task, Asked: b, At: e.At}
	f.asked = append(f.asked, q)
	f.say(Note{Kind: Asked, Event: e, Question: q, Call: f.call(b.Call)})
}

func (f *Fold) close(e *conversation.Event, id conversation.QuestionID) {
	n := Note{Kind: Closed, Event: e}
	for i, q := range f.asked {
		if q.Asked.Question == id {
			n.Question = q
			f.asked = slices.Delete(f.asked, i, i+1)
			break
		}
	}
	if n.Question != nil {
		n.Call = f.call(n.Question.Asked.Call)
	}
	f.say(n)
}

func (f *Fold) call(id conversation.CallID) *CallState {
	for _, c := range f.calls {
		if id != "" && c.ID == id {
			return c
		}
	}
	return nil
}

func (f *Fold) callBegan(e *conversation.Event, c *CallState) {
	if f.Redact && !c.Callers { // the caller's own call is for the caller
		c.Args = protocol.RedactedJSON
	}
	f.calls = append(f.calls, c)
	f.say(Note{Kind: CallBegan, Event: e, Call: c})
}

func (f *Fold) callEnded(e *conversation.Event, id conversation.CallID, status conversation.CallStatus, result string) {
	c := f.call(id)
	if c == nil {
		c = &CallState{ID: id}
	}
	f.calls = slices.DeleteFunc(f.calls, func(o *CallState) bool { return o == c })
	if c.Ended, c.Status, c.Result = true, status, result; f.Redact && !c.Callers {
		c.Result = protocol.RedactedJSON
	}
	f.say(Note{Kind: CallEnded, Event: e, Call: c})
}
