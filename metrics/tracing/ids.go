package tracing

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"strings"

	"go.opentelemetry.io/otel/trace"

	"parley/conversation"
)

// traceOf is the trace of a task of a root session, and of all that is done for it
// in the sessions below. Whoever knows the log knows it.
func traceOf(root conversation.SessionKey, task conversation.TaskID) trace.TraceID {
	sum := hashed("trace", string(root.Tenant), string(root.Session), string(task))
	id := trace.TraceID(sum[:16])
	if !id.IsValid() {
		id[15] = 1
	}
	return id
}

// The kinds of spans, as their ids have them. Never change one: a trace that began
// before an upgrade would fall apart.
const (
	kindTask    = "task"
	kindStep    = "step"
	kindChat    = "chat"
	kindCall    = "call" // tools and delegations: their ids differ
	kindCommit  = "commit"
	kindMessage = "message"
)

// spanOf is the id of a span within its trace.
func spanOf(t trace.TraceID, kind string, session conversation.SessionID, id string) trace.SpanID {
	sum := hashed(kind, string(t[:]), string(session), id)
	s := trace.SpanID(sum[:8])
	if !s.IsValid() {
		s[7] = 1
	}
	return s
}

// hashed is a hash of texts, none of which can hold the byte between them.
func hashed(kind string, texts ...string) [sha256.Size]byte {
	var room [256]byte
	b := append(room[:0], kind...)
	for _, s := range texts {
		b = append(append(b, 0xff), s...)
	}
	return sha256.Sum256(b)
}

// sampled is the choice whether a trace is sent. It is the id's alone, so every node
// and every run of the process makes the same one.
func sampled(t trace.TraceID, share float64) bool {
	if share >= 1 {
		return true
	}
	return float64(binary.BigEndian.Uint64(t[8:])) < share*math.MaxUint64
}

// first is the root session of a sub-session, and the delegation of the root session
// that it works for.
func first(key conversation.SessionKey) (root conversation.SessionKey, call conversation.CallID) {
	top, below, _ := strings.Cut(string(key.Session), "/")
	name, _, _ := strings.Cut(below, "/")
	return conversation.SessionKey{Tenant: key.Tenant, Session: conversation.SessionID(top)}, conversation.CallID(name)
}

// parseParent reads a traceparent header of the W3C; ok is false if it is none.
func parseParent(header string) (sc trace.SpanContext, ok bool) {
	if len(header) < 55 || header[2] != '-' || header[35] != '-' || header[52] != '-' || header[:2] == "ff" ||
		header[:2] == "00" && len(header) != 55 || len(header) > 55 && header[55] != '-' {
		return sc, false
	}
	var version, flags [1]byte
	var c trace.SpanContextConfig
	for _, part := range []struct {
		to   []byte
		from string
	}{{version[:], header[:2]}, {c.TraceID[:], header[3:35]}, {c.SpanID[:], header[36:52]}, {flags[:], header[53:55]}} {
		if strings.ToLower(part.from) != part.from {
			return sc, false
		}
		if _, err := hex.Decode(part.to, []byte(part.from)); err != nil {
			return sc, false
		}
	}
	c.TraceFlags, c.Remote = trace.TraceFlags(flags[0]), true
	sc = trace.NewSpanContext(c)
	return sc, sc.IsValid()
}

// header is a traceparent.
func header(t trace.TraceID, s trace.SpanID) string {
	return "00-" + t.String() + "-" + s.String() + "-01"
}

// chosen gives the library the ids that spans are to have.
type chosen struct{}

type chosenKey struct{}

type ids struct {
	trace trace.TraceID
	span  trace.SpanID
}

// NewIDs implements the library's generator.
func (chosen) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	c, _ := ctx.Value(chosenKey{}).(ids)
	return c.trace, c.span
}

// NewSpanID implements the library's generator.
func (chosen) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	c, _ := ctx.Value(chosenKey{}).(ids)
	return c.span
}
