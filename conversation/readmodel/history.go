package readmodel

import (
	"slices"
	"strings"
	"time"

	"parley/conversation"
)

// HistoryEntry is one item of a conversation as people read it: a user's message,
// with what became of it, or a part of an answer. Exactly one of Said and Part is
// set. A zero time means that it has not happened.
type HistoryEntry struct {
	Seq  conversation.Seq
	At   time.Time
	Task conversation.TaskID // the last one that the message belonged to; "" = none

	Said      *conversation.MessageAccepted // its Text is the edited one
	Edited    bool
	Read      time.Time // a step, or what the message is an answer to, has seen it
	Resolved  time.Time
	How       conversation.Resolution // 0 = not resolved
	Evidence  conversation.Evidence   // with How answered; 0 in logs of before it was kept
	Delivered time.Time               // its task completed, and it is one of those that get an answer

	Part  *conversation.Part
	Kind  conversation.ResponseKind
	Final bool

	taskEnded bool                    // of a part: nothing will make it final any more
	question  conversation.QuestionID // it answers this question, and nothing has read it yet
}

// ID is the message's or the part's id.
func (e *HistoryEntry) ID() conversation.MessageID {
	if e.Said != nil {
		return e.Said.Message
	}
	return e.Part.Message
}

// size is how many bytes the entry's text has.
func (e *HistoryEntry) size() int {
	if e.Said != nil {
		return len(e.Said.Text)
	}
	return len(e.Part.Text)
}

// settled is true when nothing about the entry will change any more.
func (e *HistoryEntry) settled() bool {
	if e.Said == nil {
		return e.Final || e.taskEnded || e.Task == ""
	}
	if e.Resolved.IsZero() {
		return false
	}
	return !e.Delivered.IsZero() || e.unanswered()
}

// unanswered is true for a message that was resolved and gets no answer.
func (e *HistoryEntry) unanswered() bool {
	switch e.How {
	case conversation.ResolvedWithdrawn, conversation.ResolvedCancelled, conversation.ResolvedFailed:
		return true
	default:
		return false
	}
}

// History is a page of the conversation. It may begin after any event; what
// happened to a message comes later in the log, so reading goes on behind the last
// entry of the page until Add says that the page is complete.
type History struct {
	Page []*HistoryEntry
	More bool // there are entries behind the page

	limit int
	bytes int // texts may still have together; the first one has room always
	byID  map[conversation.MessageID]*HistoryEntry
	// Calls that wait for an approval, by its question, as far as it was asked
	// behind the beginning; and when such a call went on or was refused.
	approvals map[conversation.QuestionID]conversation.CallID
	decided   map[conversation.CallID]time.Time
	closed    conversation.QuestionID // the last one that was answered or closed since a step ended
}

// NewHistory begins a page of at most limit entries, whose texts have at most so many
// bytes together; a first entry may have more.
func NewHistory(limit, bytes int) *History {
	return &History{
		limit: limit, bytes: bytes, byID: make(map[conversation.MessageID]*HistoryEntry),
		approvals: make(map[conversation.QuestionID]conversation.CallID), decided: make(map[conversation.CallID]time.Time),
	}
}

// Add takes the next event. complete is true when nothing that comes can change
// the page.
func (h *History) Add(e *conversation.Event) (complete bool) {
	h.reads(e)
	if entry := h.begins(e); entry != nil {
		if !h.More && len(h.Page) < h.limit && (len(h.Page) == 0 || entry.size() <= h.bytes) {
			h.bytes -= entry.size()
			h.Page = append(h.Page, entry)
			h.byID[entry.ID()] = entry
		} else {
			h.More = true
		}
	} else {
		h.happens(e)
	}
	return h.More && !slices.ContainsFunc(h.Page, func(e *HistoryEntry) bool { return !e.settled() })
}

// begins is the entry that an event starts, if it starts one.
func (h *History) begins(e *conversation.Event) *HistoryEntry {
	switch b := e.Body.(type) {
	case conversation.MessageAccepted:
		return &HistoryEntry{Seq: e.Seq, At: e.At, Task: e.Task, Said: &b}
	case conversation.PartialResponse:
		return &HistoryEntry{Seq: e.Seq, At: e.At, Task: e.Task, Part: &b.Part}
	case conversation.Response:
		if b.Promoted { // shown before; it is final now
			if shown := h.byID[b.Message]; shown != nil {
				shown.Final, shown.Kind = true, b.ResponseKind
			}
			return nil
		}
		return &HistoryEntry{Seq: e.Seq, At: e.At, Task: e.Task, Part: &b.Part, Final: true, Kind: b.ResponseKind}
	default:
		return nil
	}
}

// reads notes that messages of the page were read. Mostly a step says which. An
// answer to a question is in no step's list: the task's next step is shown it as the
// question's result; an answer to a delegation is taken by it at once, and an
// approval by the call that it allows or refuses. An outside runtime has no steps: a
// hand-out is the sign, or without one its first part for a message.
func (h *History) reads(e *conversation.Event) {
	switch b := e.Body.(type) {
	case conversation.StepStarted:
		for _, m := range b.Read {
			h.read(m, e.At)
		}
		for _, entry := range h.Page {
			if entry.question != "" && entry.Task == e.Task && b.Attempt == 1 { // a later attempt is shown the same as the first
				h.read(entry.ID(), e.At)
			}
		}
	case conversation.Asked:
		if b.Approval != nil && b.Delegation == "" {
			h.approvals[b.Question] = b.Approval.Call
		}
	case conversation.QuestionAnswered:
		h.closed = b.Question
		h.answered(b, e.At)
	case conversation.QuestionClosed:
		h.closed = b.Question
	case conversation.StepFinished:
		h.closed = "" // the calls that follow are those of the step
	case conversation.ToolStarted:
		h.approves(e, b.Call)
	case conversation.ToolFinished:
		if b.Status == conversation.CallDenied {
			h.approves(e, b.Call)
		}
	case conversation.RuntimeStatus:
		h.read(b.Message, e.At)
	case conversation.PartialResponse:
		h.read(conversation.MessageID(b.Source), e.At)
	case conversation.Response:
		if b.ResponseKind == conversation.ResponsePlain {
			h.read(conversation.MessageID(b.Source), e.At)
		}
	}
}

func (h *History) read(id conversation.MessageID, at time.Time) {
	if entry := h.byID[id]; entry != nil && entry.Said != nil && entry.Read.IsZero() {
		entry.Read, entry.question = at, ""
	}
}

func (h *History) answered(b conversation.QuestionAnswered, at time.Time) {
	decided := h.decided[h.approvals[b.Question]]
	switch {
	case strings.Contains(string(b.Question), "."): // a delegation's question: "<delegation>.<question>"
		h.read(b.Message, at)
	case !decided.IsZero():
		h.read(b.Message, decided)
	default:
		if entry := h.byID[b.Message]; entry != nil && entry.Said != nil && entry.Read.IsZero() {
			entry.question = b.Question
		}
	}
}

// approves finds the answer that let a call go on, or refused it: that to the
// question that named the call. When it was asked before the page began, it is the
// question that was closed last: the call follows at once.
func (h *History) approves(e *conversation.Event, call conversation.CallID) {
	question := h.closed
	for q, c := range h.approvals {
		if c == call {
			h.decided[call] = e.At
			question = q
		}
	}
	if c, known := h.approvals[question]; question == "" || known && c != call {
		return
	}
	for _, entry := range h.Page {
		if entry.question == question && entry.Said.Disposition == conversation.Answered {
			h.read(entry.ID(), e.At)
		}
	}
}

// happens notes what an event says about entries of the page.
func (h *History) happens(e *conversation.Event) {
	switch b := e.Body.(type) {
	case conversation.MessageEdited:
		if entry := h.byID[b.Message]; entry != nil && entry.Said != nil {
			entry.Said.Text, entry.Edited = b.Text, true
		}
	case conversation.MessageResolved:
		if entry := h.byID[b.Message]; entry != nil {
			entry.Resolved, entry.How, entry.Evidence = e.At, b.How, b.Evidence
		}
	case conversation.TaskStatusChanged:
		for _, m := range b.Messages { // leftovers belong to their new task
			if entry := h.byID[m]; entry != nil {
				entry.Task = e.Task
			}
		}
		if b.New.Ended() {
			h.taskEnds(e.Task, b.New, e.At)
		}
	}
}

func (h *History) taskEnds(task conversation.TaskID, status conversation.TaskStatus, at time.Time) {
	for _, entry := range h.Page {
		switch {
		case entry.Task != task:
		case entry.Said == nil:
			entry.taskEnded = true
		case status == conversation.TaskComplete && !entry.Resolved.IsZero() && !entry.unanswered() && entry.Delivered.IsZero():
			entry.Delivered = at
		}
	}
}
