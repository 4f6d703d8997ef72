package gatewaytest

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"parley/conversation"
)

// A play is a list of what happens in the session "S", in order: a conversation.EventBody is an
// event of Task, a conversation.Event one of another task, and a conversation.Ephemeral streams
// beside them. The functions below make what plays are made of.

// Task is the task of a play. The message m1-S began it.
const Task = conversation.TaskID("t1-S")

// Folds makes notes of what happens: an exchange.Fold.
type Folds[N any] interface {
	Event(e *conversation.Event) []N
	Stream(e conversation.Ephemeral) []N
}

// Teller tells a play to a fold, one by one.
type Teller[N any] struct {
	Fold Folds[N]
	Seq  conversation.Seq // the last event that was told
}

// Tell has one thing happen.
func (t *Teller[N]) Tell(x any) []N {
	var e conversation.Event
	switch b := x.(type) {
	case conversation.EventBody:
		e = conversation.Event{Task: Task, Body: b}
	case conversation.Event:
		e = b
	case conversation.Ephemeral:
		return t.Fold.Stream(b)
	}
	t.Seq++
	e.Seq, e.At = t.Seq, time.UnixMilli(1_800_000_000_000+int64(t.Seq)).UTC()
	return t.Fold.Event(&e)
}

// Notes tells a play from its beginning.
func Notes[N any](f Folds[N], play []any) iter.Seq[*N] {
	return func(yield func(*N) bool) {
		t := Teller[N]{Fold: f}
		for _, x := range play {
			notes := t.Tell(x)
			for i := range notes {
				if !yield(&notes[i]) {
					return
				}
			}
		}
	}
}

// Stored is what is left of a play when it is over: its events.
func Stored[P ~[]any](play P) P {
	return slices.DeleteFunc(slices.Clone(play), func(x any) bool { _, streams := x.(conversation.Ephemeral); return streams })
}

// NoOther fails unless a folder of testdata has a file for each of n golden files: none is left
// that no test compares with.
func NoOther(t testing.TB, folder string, n int) {
	t.Helper()
	if files, err := os.ReadDir(filepath.Join("testdata", folder)); err != nil || len(files) != n {
		t.Errorf("%d files of %d in %s: %v", len(files), n, folder, err)
	}
}

// Status is a change of the task's status.
func Status(old, now conversation.TaskStatus) conversation.TaskStatusChanged {
	return conversation.TaskStatusChanged{Trigger: "m1-S", Old: old, New: now}
}

// Says is the n-th text of the task, of a draft; "" is none.
func Says(n int, text, draft string) conversation.Part {
	return conversation.Part{
		Message: conversation.MessageID(fmt.Sprintf("p%d-S", n)), Source: "m1-S", Index: conversation.PartIndex(n - 1),
		Text: text, InReplyTo: "m1-S", Draft: conversation.DraftID(draft),
	}
}

// Step is the n-th step of the task, which reads messages.
func Step(n, attempt int, read ...conversation.MessageID) conversation.StepStarted {
	return conversation.StepStarted{Step: conversation.StepNumber(n), Attempt: attempt, Agent: "coordinator", Read: read}
}

// StepDone ends a step well.
func StepDone(n, attempt int) conversation.StepFinished {
	return conversation.StepFinished{
		Step: conversation.StepNumber(n), Attempt: attempt, Outcome: conversation.StepOK, Model: "test", Usage: conversation.Usage{InputTokens: 10, OutputTokens: 2},
	}
}

// Delta is a piece of a draft's text.
func Delta(draft string, at int, text string) conversation.Delta {
	return conversation.Delta{Task: Task, Draft: conversation.DraftID(draft), At: at, Text: text}
}

// Answered is that a message has its answer.
func Answered(message string) conversation.MessageResolved {
	return conversation.MessageResolved{Message: conversation.MessageID(message), How: conversation.ResolvedAnswered, Evidence: conversation.EvidenceOnly}
}

// Unproven is a text that is shown as the reply to the play's message by a guess, and the end of
// the task with nothing that proves it: plain success for whoever waits for the task.
func Unproven(text string) []any {
	part := Says(1, text, "")
	part.Guessed = true
	return []any{
		conversation.PartialResponse{Part: part}, conversation.Response{Part: part, Promoted: true},
		conversation.MessageResolved{Message: "m1-S", How: conversation.ResolvedUnanswered}, Status(conversation.TaskRunning, conversation.TaskComplete),
	}
}

// Approval asks whether a tool may be called.
func Approval(q conversation.QuestionID, call conversation.CallID, tool, args string) conversation.Asked {
	return conversation.Asked{
		Question: q, Text: "May I call " + tool + "?", Blocking: true, Choices: []string{"approve", "decline"},
		Approval: &conversation.Approval{Call: call, Tool: tool, Args: args},
	}
}
