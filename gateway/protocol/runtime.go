package protocol

import (
	"math"
	"net/url"
	"strings"
	"time"

	"parley/conversation"
)

// What outside runtimes send and are answered.

// The bounds of a claim.
const (
	maxClaimLimit = 100
	maxClaimWait  = 30 * time.Second
)

// ReadPart reads the body of POST parts. Author and client id are left to the caller.
func ReadPart(data []byte, l Limits) (conversation.AddPart, *conversation.Error) {
	var p conversation.AddPart
	var text *string
	var index, generation *uint64
	err := ReadData(data, func(m Member) error {
		switch string(m.Name) {
		case "source_id":
			return m.ID(&p.Source)
		case "part_index":
			return m.WholePointer(&index)
		case "generation":
			return m.WholePointer(&generation)
		case "text":
			return m.TextPointer(&text)
		case "final":
			return m.Bool(&p.Final)
		}
		return nil
	})
	if err != nil {
		return p, err
	}
	switch {
	case text == nil && !p.Final:
		return p, Missing("text")
	case text != nil && l.TextBytes > 0 && len(*text) > l.TextBytes:
		return p, conversation.Errorf(conversation.TooLarge, "text must be at most %d bytes", l.TextBytes)
	case index != nil && *index > math.MaxInt32:
		return p, conversation.Errorf(conversation.BadRequest, "part_index is too large")
	}
	if text != nil {
		p.Text = *text
	}
	if index != nil && p.Source != "" {
		p.Index, p.Indexed = conversation.PartIndex(*index), true
	}
	p.Generation, err = readGeneration(generation)
	return p, err
}

func readGeneration(n *uint64) (uint32, *conversation.Error) {
	switch {
	case n == nil:
		return 0, nil
	case *n == 0 || *n > math.MaxUint32:
		return 0, conversation.Errorf(conversation.BadRequest, "generation must be that of a claim, at least 1")
	}
	return uint32(*n), nil
}

// AppendPartReceipt writes the answer to a runtime that has said a part.
func AppendPartReceipt(o *Object, r conversation.Receipt) {
	o.Text("message", string(r.Message))
	o.Uint("seq", uint64(r.Seq))
	o.Uint("part_index", uint64(r.PartIndex))
	o.Bool("duplicate", r.Duplicate)
	if r.OtherText {
		o.Bool("same_text", false)
	}
}

// ReadRuntimeSays reads what a runtime says of a message, which the route names.
func ReadRuntimeSays(data []byte) (conversation.RuntimeSays, *conversation.Error) {
	var s conversation.RuntimeSays
	var status string
	var generation *uint64
	err := ReadData(data, func(m Member) error {
		switch string(m.Name) {
		case "status":
			return m.Word(&status)
		case "generation":
			return m.WholePointer(&generation)
		case "error":
			return m.Text(&s.Error)
		case "permanent":
			return m.Bool(&s.Permanent)
		}
		return nil
	})
	if err != nil {
		return s, err
	}
	if status == "" {
		return s, Missing("status")
	}
	var known bool
	if s.Status, known = conversation.ParseRuntimeState(status); !known || s.Status == conversation.RuntimeHandedOut {
		return s, conversation.Errorf(conversation.BadRequest, "status must be read, alive or failed")
	}
	if s.Status != conversation.RuntimeFailed {
		s.Error, s.Permanent = "", false
	}
	s.Generation, err = readGeneration(generation)
	return s, err
}

// AppendLease writes the answer to a runtime that has given a sign of life. A lease
// that never ends has no until.
func AppendLease(o *Object, r conversation.Receipt) {
	o.Uint("generation", uint64(r.Generation))
	o.OptionalTime("until", r.Until)
}

// ReadClaim reads the data of claim and the body of POST /api/runtime/claim. The
// tenant is left to the caller.
func ReadClaim(data []byte) (conversation.ClaimRequest, *conversation.Error) {
	c := conversation.ClaimRequest{Limit: 1}
	var runtime, agent, wait string
	var limit *uint64
	err := ReadData(data, func(m Member) error {
		switch string(m.Name) {
		case "runtime":
			return m.ID(&runtime)
		case "agent":
			return m.ID(&agent)
		case "limit":
			return m.WholePointer(&limit)
		case "wait":
			return m.Bounded(&wait, maxWord)
		}
		return nil
	})
	switch {
	case err != nil:
		return c, err
	case strings.TrimSpace(runtime) == "":
		return c, Missing("runtime")
	case agent != "" && !conversation.AgentName(agent).Outside():
		return c, conversation.Errorf(conversation.BadRequest, `agent must be "outside" or "outside:NAME"`)
	case limit != nil && *limit == 0:
		return c, conversation.Errorf(conversation.BadRequest, "limit must be a whole number of at least 1")
	}
	c.Runtime, c.Agent = conversation.RuntimeName(runtime), conversation.AgentName(agent)
	if limit != nil {
		c.Limit = int(min(*limit, maxClaimLimit))
	}
	if wait != "" {
		d, bad := time.ParseDuration(wait)
		if bad != nil || d < 0 {
			return c, conversation.Errorf(conversation.BadRequest, `wait must be a duration such as "30s"`)
		}
		c.Wait = min(d, maxClaimWait)
	}
	return c, nil
}

// AppendClaimed writes the answer to a claim.
func AppendClaimed(o *Object, items []conversation.HandedOut) {
	AppendList(o, "items", items, func(o *Object, m conversation.HandedOut) {
		o.Text("session", string(m.Key.Session))
		o.Text("message", string(m.Message))
		o.Text("text", m.Text)
		o.Text("author", string(m.Author))
		o.Optional("name", m.AuthorName)
		o.Uint("generation", uint64(m.Generation))
		o.OptionalTime("until", m.Until)
		o.Uint("next_part", uint64(m.NextPart))
		o.Text("context_url", "/api/sessions/"+url.PathEscape(string(m.Key.Session))+"/messages")
	})
}

// appendConflict adds what a refusal tells beside its sentence: where a task, a part
// or a lease stands.
func appendConflict(o *Object, e *conversation.Error) {
	if e.TaskStatus != 0 {
		o.Text("task_status", e.TaskStatus.String())
	}
	if e.NextPart != nil {
		o.Uint("next_part", uint64(*e.NextPart))
	}
	if e.Generation != 0 {
		o.Uint("generation", uint64(e.Generation))
	}
}
