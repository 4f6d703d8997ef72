package protocol

import (
	"maps"
	"slices"
	"time"

	"parley/conversation"
)

// Ephemeral frames have no seq and no ts: nothing orders them but the event that
// they came after. A client that misses one misses nothing that lasts.

func sortedKeys(o conversation.Overrides) []string {
	if len(o) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(o))
}

// ephemeral appends the envelope of an ephemeral frame.
func ephemeral(dst []byte, kind string, session conversation.SessionID, after conversation.Seq, task conversation.TaskID, data func(o *Object)) []byte {
	dst = append(dst, `{"type":"`...)
	dst = append(dst, kind...)
	dst = append(dst, `","session":`...)
	dst = AppendString(dst, session)
	dst = append(dst, `,"after":`...)
	dst = appendUint(dst, after)
	if task != "" {
		dst = append(dst, `,"task":`...)
		dst = AppendString(dst, task)
	}
	dst = append(dst, `,"data":`...)
	o := NewObject(dst)
	data(&o)
	return append(o.Close(), '}')
}

// SensitiveEphemeral is true for what looks different without read:tools: the words of a
// tool that runs.
func SensitiveEphemeral(e conversation.Ephemeral) bool {
	_, is := e.(conversation.Progress)
	return is
}

// AppendEphemeral appends the payload of what a session shows without storing it.
func AppendEphemeral(dst []byte, session conversation.SessionID, after conversation.Seq, e conversation.Ephemeral, redact bool) []byte {
	switch e := e.(type) {
	case conversation.Delta:
		return AppendDelta(dst, session, after, &e)
	case conversation.DraftDropped:
		return ephemeral(dst, "draft_dropped", session, after, e.Task, func(o *Object) {
			o.Text("draft", string(e.Draft))
		})
	case conversation.Progress:
		return ephemeral(dst, "progress", session, after, e.Task, func(o *Object) {
			o.Text("call", string(e.Call))
			secret(o, "note", cut(e.Note), redact)
			if e.Percent != nil {
				o.Int("percent", int64(*e.Percent))
			}
		})
	case conversation.Thinking:
		return ephemeral(dst, "thinking", session, after, e.Task, func(o *Object) {
			o.Text("agent", string(e.Agent))
			o.Uint("step", uint64(e.Step))
		})
	default:
		return dst
	}
}

// AppendDelta appends a delta's frame. after is the last durable event before it.
func AppendDelta(dst []byte, session conversation.SessionID, after conversation.Seq, d *conversation.Delta) []byte {
	return ephemeral(dst, "delta", session, after, d.Task, func(o *Object) {
		o.Text("draft", string(d.Draft))
		o.Int("at", int64(d.At))
		o.Text("text", d.Text)
	})
}

// AppendDraftState appends what is there of a draft, for a client that comes late.
func AppendDraftState(dst []byte, session conversation.SessionID, after conversation.Seq, d conversation.DraftView) []byte {
	return ephemeral(dst, "draft_state", session, after, d.Task, func(o *Object) {
		o.Text("draft", string(d.Draft))
		o.Text("text", d.Text)
	})
}

// AppendRendered appends the HTML of a part.
func AppendRendered(dst []byte, session conversation.SessionID, after conversation.Seq, message conversation.MessageID, html string) []byte {
	return ephemeral(dst, "rendered", session, after, "", func(o *Object) {
		o.Text("message", string(message))
		o.Text("html", html)
	})
}

// AppendTyping appends that a user is typing, or not any more.
func AppendTyping(dst []byte, session conversation.SessionID, after conversation.Seq, user conversation.UserID, on bool) []byte {
	return ephemeral(dst, "typing", session, after, "", func(o *Object) {
		o.Text("user", string(user))
		o.Bool("on", on)
	})
}

// AppendGone appends that the session was erased.
func AppendGone(dst []byte, session conversation.SessionID, after conversation.Seq, reason string) []byte {
	return ephemeral(dst, "gone", session, after, "", func(o *Object) {
		o.Text("reason", reason)
	})
}

// AppendHeartbeat appends the connection's own sign of life.
func AppendHeartbeat(dst []byte, now time.Time) []byte {
	dst = append(dst, `{"type":"hb","data":{"ts":`...)
	dst = appendTime(dst, now)
	return append(dst, "}}"...)
}

// AppendGoaway appends that the server is about to close the connection with this
// code; the client should come back after retryIn.
func AppendGoaway(dst []byte, code int, reason string, retryIn time.Duration) []byte {
	dst = append(dst, `{"type":"goaway","data":`...)
	o := NewObject(dst)
	o.Int("code", int64(code))
	o.Text("reason", reason)
	o.Int("retry_in_ms", retryIn.Milliseconds())
	return append(o.Close(), '}')
}

// AppendStreamHello appends the payload of the first event of a stream: which log it is of
// and where it begins.
func AppendStreamHello(dst []byte, v conversation.View, since conversation.Seq, resumed bool, reason string) []byte {
	dst = append(dst, `{"type":"hello","session":`...)
	dst = AppendString(dst, v.Key.Session)
	dst = append(dst, `,"data":`...)
	o := NewObject(dst)
	o.Text("log", string(v.Log))
	o.Uint("head", uint64(v.Head))
	o.Uint("first", uint64(since)+1)
	o.Bool("resumed", resumed)
	o.Optional("reason", reason)
	return append(o.Close(), '}')
}

// AppendSynced appends the payload that ends a replay.
func AppendSynced(dst []byte, session conversation.SessionID, head conversation.Seq) []byte {
	dst = append(dst, `{"type":"synced","session":`...)
	dst = AppendString(dst, session)
	dst = append(dst, `,"data":{"head":`...)
	dst = appendUint(dst, head)
	return append(dst, "}}"...)
}
