package gateway

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
func ephemeral(dst []byte, kind string, session conversation.SessionID, after conversation.Seq, task conversation.TaskID, data func(o *object)) []byte {
	dst = append(dst, `{"type":"`...)
	dst = append(dst, kind...)
	dst = append(dst, `","session":`...)
	dst = appendString(dst, session)
	dst = append(dst, `,"after":`...)
	dst = appendUint(dst, after)
	if task != "" {
		dst = append(dst, `,"task":`...)
		dst = appendString(dst, task)
	}
	dst = append(dst, `,"data":`...)
	o := open(dst)
	data(&o)
	return append(o.close(), '}')
}

// appendEphemeral appends the payload of what a session shows without storing it.
func appendEphemeral(dst []byte, session conversation.SessionID, after conversation.Seq, e conversation.Ephemeral) []byte {
	switch e := e.(type) {
	case conversation.Delta:
		return appendDelta(dst, session, after, &e)
	case conversation.DraftDropped:
		return ephemeral(dst, "draft_dropped", session, after, e.Task, func(o *object) {
			o.text("draft", string(e.Draft))
		})
	case conversation.Progress:
		return ephemeral(dst, "progress", session, after, e.Task, func(o *object) {
			o.text("call", string(e.Call))
			o.text("note", cut(e.Note))
			if e.Percent != nil {
				o.int("percent", int64(*e.Percent))
			}
		})
	case conversation.Thinking:
		return ephemeral(dst, "thinking", session, after, e.Task, func(o *object) {
			o.text("agent", string(e.Agent))
			o.uint("step", uint64(e.Step))
		})
	default:
		return dst
	}
}

func appendDelta(dst []byte, session conversation.SessionID, after conversation.Seq, d *conversation.Delta) []byte {
	return ephemeral(dst, "delta", session, after, d.Task, func(o *object) {
		o.text("draft", string(d.Draft))
		o.int("at", int64(d.At))
		o.text("text", d.Text)
	})
}

func appendDraftState(dst []byte, session conversation.SessionID, after conversation.Seq, d conversation.DraftView) []byte {
	return ephemeral(dst, "draft_state", session, after, d.Task, func(o *object) {
		o.text("draft", string(d.Draft))
		o.text("text", d.Text)
	})
}

func appendTyping(dst []byte, session conversation.SessionID, after conversation.Seq, user conversation.UserID, on bool) []byte {
	return ephemeral(dst, "typing", session, after, "", func(o *object) {
		o.text("user", string(user))
		o.bool("on", on)
	})
}

// appendRendered shows a part's Markdown as sanitised HTML, to clients that asked for it.
func appendRendered(dst []byte, session conversation.SessionID, after conversation.Seq, message conversation.MessageID, html string) []byte {
	return ephemeral(dst, "rendered", session, after, "", func(o *object) {
		o.text("message", string(message))
		o.text("html", html)
	})
}

func appendGone(dst []byte, session conversation.SessionID, after conversation.Seq, reason string) []byte {
	return ephemeral(dst, "gone", session, after, "", func(o *object) {
		o.text("reason", reason)
	})
}

func appendHeartbeat(dst []byte, now time.Time) []byte {
	dst = append(dst, `{"type":"hb","data":{"ts":`...)
	dst = appendTime(dst, now)
	return append(dst, "}}"...)
}

func appendGoaway(dst []byte, code int, reason string, retryIn time.Duration) []byte {
	dst = append(dst, `{"type":"goaway","data":`...)
	o := open(dst)
	o.int("code", int64(code))
	o.text("reason", reason)
	o.int("retry_in_ms", retryIn.Milliseconds())
	return append(o.close(), '}')
}
