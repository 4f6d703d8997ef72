package wire

import (
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"parley/conversation"
)

// writer writes the messages of events.proto and store.proto, field after field
// in the order of their numbers; a field that says nothing is left out. Every
// commit of every session comes through here, and through the generated code it
// would be copied into forty small pieces of memory first. That code reads; the
// golden files and the tests hold the two against each other.
type writer struct{ b []byte }

// newWriter adds to dst, behind the format byte.
func newWriter(dst []byte) writer { return writer{append(dst, format)} }

func (w *writer) uint(field protowire.Number, v uint64) {
	if v != 0 {
		w.some(field, v)
	}
}

// some writes a number also when it is 0: for fields that may be absent.
func (w *writer) some(field protowire.Number, v uint64) {
	w.b = protowire.AppendTag(w.b, field, protowire.VarintType)
	w.b = protowire.AppendVarint(w.b, v)
}

func (w *writer) int(field protowire.Number, v int64) { w.uint(field, uint64(v)) }

func (w *writer) bool(field protowire.Number, v bool) {
	if v {
		w.some(field, 1)
	}
}

func (w *writer) time(field protowire.Number, t time.Time) {
	if !t.IsZero() {
		w.int(field, t.UnixMilli())
	}
}

func (w *writer) took(field protowire.Number, d time.Duration) { w.int(field, d.Milliseconds()) }

func (w *writer) text(field protowire.Number, s string) {
	if s != "" {
		w.line(field, s)
	}
}

// line writes a text also when it is empty: for fields that may be absent, and
// for lists. Texts of tools and of command-line models may hold any bytes, and a
// turn must not be lost for that: each byte that is not UTF-8 is replaced, as
// encoding/json does it, so that a client that reads the log sees what it was
// shown live.
func (w *writer) line(field protowire.Number, s string) {
	if !utf8.ValidString(s) {
		s = string([]rune(s))
	}
	w.b = protowire.AppendTag(w.b, field, protowire.BytesType)
	w.b = protowire.AppendString(w.b, s)
}

// bytes writes what is no text.
func (w *writer) bytes(field protowire.Number, s string) {
	if s != "" {
		w.b = protowire.AppendTag(w.b, field, protowire.BytesType)
		w.b = protowire.AppendString(w.b, s)
	}
}

// open begins a message within the message; close ends it.
func (w *writer) open(field protowire.Number) (start int) {
	w.b = protowire.AppendTag(w.b, field, protowire.BytesType)
	w.b = append(w.b, 0) // the length: one byte is enough for most
	return len(w.b)
}

func (w *writer) close(start int) {
	n := len(w.b) - start
	if more := protowire.SizeVarint(uint64(n)) - 1; more > 0 {
		w.b = append(w.b, make([]byte, more)...)
		copy(w.b[start+more:], w.b[start:])
	}
	protowire.AppendVarint(w.b[:start-1], uint64(n))
}

func lines[S ~string](w *writer, field protowire.Number, list []S) {
	for _, s := range list {
		w.line(field, string(s))
	}
}

// overrides writes a removed override as "", which is not JSON.
func (w *writer) overrides(field protowire.Number, o conversation.Overrides) {
	for _, key := range slices.Sorted(maps.Keys(o)) {
		at := w.open(field)
		w.line(1, key)
		w.line(2, string(o[key]))
		w.close(at)
	}
}

func (w *writer) failure(field protowire.Number, f *conversation.Failure) {
	if f == nil {
		return
	}
	at := w.open(field)
	w.text(1, string(f.Code))
	w.text(2, f.Message)
	w.close(at)
}

func (w *writer) usage(field protowire.Number, u conversation.Usage) {
	at := w.open(field)
	w.int(1, int64(u.InputTokens))
	w.int(2, int64(u.OutputTokens))
	w.bool(3, u.Estimated)
	w.close(at)
}

func (w *writer) items(field protowire.Number, items []conversation.Item) {
	for i := range items {
		item := &items[i]
		at := w.open(field)
		w.uint(1, uint64(item.Kind))
		w.text(2, item.ID)
		w.text(3, item.Text)
		w.text(4, item.Tool)
		w.text(5, item.Args)
		w.bool(6, item.Streamed)
		w.bytes(7, item.Opaque)
		w.text(8, item.OpaqueBy)
		w.close(at)
	}
}

func (w *writer) results(field protowire.Number, results []conversation.CallResult) {
	for i := range results {
		at := w.open(field)
		w.text(1, results[i].ID)
		w.text(2, results[i].Text)
		w.close(at)
	}
}

func (w *writer) part(field protowire.Number, p conversation.Part) {
	at := w.open(field)
	w.text(1, string(p.Message))
	w.text(2, string(p.Source))
	w.uint(3, uint64(p.Index))
	w.text(4, p.Text)
	w.text(5, string(p.InReplyTo))
	w.text(6, string(p.Draft))
	w.text(7, string(p.Author))
	w.text(8, string(p.ClientMsgID))
	w.close(at)
}

func (w *writer) approval(field protowire.Number, a *conversation.Approval) {
	if a == nil {
		return
	}
	at := w.open(field)
	w.text(1, string(a.Call))
	w.text(2, a.Tool)
	w.text(3, a.Args)
	w.close(at)
}

// event panics on a body that is none of the vocabulary's: a test holds the
// switch against conversation.EventKinds.
func (w *writer) event(field protowire.Number, e *conversation.Event) {
	at := w.open(field)
	w.uint(1, uint64(e.Seq))
	w.time(2, e.At)
	w.text(3, string(e.Task))
	body := w.open(10 + protowire.Number(e.Body.Kind()))
	w.body(e.Body)
	w.close(body)
	w.close(at)
}

func (w *writer) body(body conversation.EventBody) {
	switch b := body.(type) {
	case conversation.SessionCreated:
		w.text(1, b.Title)
		w.text(2, string(b.Agent))
		w.text(3, string(b.Owner))
		w.uint(4, uint64(b.Access))
		w.overrides(5, b.Policy)
	case conversation.SessionUpdated:
		if b.Title != nil {
			w.line(1, *b.Title)
		}
		if b.Access != nil {
			w.some(2, uint64(*b.Access))
		}
		w.overrides(3, b.Policy)
	case conversation.SessionClosed:
		w.text(1, b.Reason)
	case conversation.MessageAccepted:
		w.text(1, string(b.Message))
		w.text(2, string(b.ClientMsgID))
		w.text(3, string(b.Author))
		w.text(4, b.Text)
		w.uint(5, uint64(b.Disposition))
		w.uint(6, uint64(b.Via))
		w.uint(7, uint64(b.Mode))
		w.text(8, string(b.InReplyTo))
		w.text(9, string(b.Question))
		w.time(10, b.NotBefore)
		w.bool(11, b.Steer)
		w.bool(12, b.First)
		w.bool(13, b.Kept)
	case conversation.MessageEdited:
		w.text(1, string(b.Message))
		w.text(2, b.Text)
	case conversation.MessageWithdrawn:
		w.text(1, string(b.Message))
		w.text(2, string(b.Heir))
	case conversation.MessageMoved:
		w.text(1, string(b.Message))
		w.text(2, string(b.Before))
	case conversation.MessageResolved:
		w.text(1, string(b.Message))
		w.uint(2, uint64(b.How))
		if b.Part != nil {
			w.some(3, uint64(*b.Part))
		}
		w.text(4, string(b.Question))
	case conversation.TaskStatusChanged:
		w.text(1, string(b.Trigger))
		w.uint(2, uint64(b.Old))
		w.uint(3, uint64(b.New))
		lines(w, 4, b.Messages)
		w.text(5, b.Reason)
		w.failure(6, b.Error)
	case conversation.TaskCancelling:
		w.uint(1, uint64(b.By))
		w.time(2, b.Until)
		w.text(3, b.Reason)
		w.failure(4, b.Error)
		w.bool(5, b.Drop)
		w.text(6, string(b.Author))
		w.text(7, string(b.ClientMsgID))
	case conversation.StepStarted:
		w.uint(1, uint64(b.Step))
		w.int(2, int64(b.Attempt))
		w.text(3, string(b.Agent))
		lines(w, 4, b.Read)
		w.uint(5, uint64(b.Cause))
		w.failure(6, b.Error)
		if b.Usage != nil {
			w.usage(7, *b.Usage)
		}
		w.time(8, b.NotBefore)
		w.bool(9, b.WrapUp)
	case conversation.StepFinished:
		w.stepFinished(b)
	case conversation.PartialResponse:
		w.part(1, b.Part)
	case conversation.Response:
		w.part(1, b.Part)
		w.uint(2, uint64(b.ResponseKind))
		w.bool(3, b.Promoted)
	case conversation.Asked:
		w.text(1, string(b.Question))
		w.text(2, b.Text)
		w.bool(3, b.Blocking)
		lines(w, 4, b.Choices)
		w.time(5, b.ExpiresAt)
		if b.Default != nil {
			w.line(6, *b.Default)
		}
		w.text(7, string(b.Delegation))
		w.approval(8, b.Approval)
		w.text(9, b.ModelCall)
	case conversation.QuestionAnswered:
		w.text(1, string(b.Question))
		w.text(2, string(b.Message))
		w.text(3, b.Text)
		w.text(4, b.By)
	case conversation.QuestionClosed:
		w.text(1, string(b.Question))
		w.uint(2, uint64(b.Reason))
	case conversation.ToolStarted:
		w.text(1, string(b.Call))
		w.text(2, b.Tool)
		w.text(3, b.Args)
		w.time(4, b.Deadline)
		w.text(5, string(b.Delegation))
		w.text(6, b.ModelCall)
		w.bool(7, b.Idempotent)
	case conversation.ToolFinished:
		w.text(1, string(b.Call))
		w.uint(2, uint64(b.Status))
		w.text(3, b.Summary)
		w.took(4, b.Took)
	case conversation.DelegationStarted:
		w.text(1, string(b.Delegation))
		w.text(2, string(b.Agent))
		w.text(3, b.Objective)
		w.text(4, string(b.Session))
		w.time(5, b.Deadline)
		w.text(6, b.ModelCall)
	case conversation.DelegationFinished:
		w.text(1, string(b.Delegation))
		w.uint(2, uint64(b.Status))
		w.text(3, b.Summary)
		w.took(4, b.Took)
	case conversation.CoverageNudge:
		lines(w, 1, b.Messages)
		w.int(2, int64(b.Nudge))
	case conversation.ContextCompacted:
		w.uint(1, uint64(b.Upto))
		w.int(2, int64(b.TokensBefore))
		w.int(3, int64(b.TokensAfter))
		w.text(4, b.Summary)
	default:
		panic(fmt.Sprintf("wire: there is no encoding for an event body of type %T", body))
	}
}

func (w *writer) stepFinished(b conversation.StepFinished) {
	w.uint(1, uint64(b.Step))
	w.int(2, int64(b.Attempt))
	w.uint(3, uint64(b.Outcome))
	if len(b.Decisions) > 0 {
		at := w.open(4)
		for _, d := range b.Decisions {
			w.b = protowire.AppendVarint(w.b, uint64(d))
		}
		w.close(at)
	}
	w.text(5, b.Model)
	if b.Usage != (conversation.Usage{}) {
		w.usage(6, b.Usage)
	}
	w.took(7, b.Took)
	w.failure(8, b.Error)
	w.text(9, b.ResponseID)
	w.items(10, b.Items)
	w.results(11, b.Results)
}
