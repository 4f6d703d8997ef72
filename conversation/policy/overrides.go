package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"parley/conversation"
)

// With is p, which the configuration says, with the overrides of a session in
// place. What the configuration says is also the most that a session may have. An
// unknown key, a value out of range and one beyond that are a bad_request that names
// the key and the bound.
func (p Policy) With(o conversation.Overrides) (Policy, *conversation.Error) {
	if len(o) == 0 { // most sessions; p is large, and a copy that a setter may change is on the heap
		return p, nil
	}
	own := p
	for _, key := range slices.Sorted(maps.Keys(o)) {
		set, ok := overridable[key]
		if !ok {
			return p, conversation.Errorf(conversation.BadRequest, "%q is not a policy of a session; there are: %s", key, strings.Join(OverrideKeys(), ", "))
		}
		if err := set(&own, &p, o[key]); err != nil {
			return p, conversation.Errorf(conversation.BadRequest, "policy %s: %v", key, err)
		}
	}
	return own, nil
}

// WithStored is p with those overrides that it still allows: a session that an older
// configuration has allowed more must stay loadable.
func (p Policy) WithStored(o conversation.Overrides) Policy {
	own := p
	for key, value := range o {
		next := own
		if set, ok := overridable[key]; ok && set(&next, &p, value) == nil {
			own = next
		}
	}
	return own
}

// CheckMode is nil for a mode that a message or a session may choose for itself.
func (p Policy) CheckMode(m conversation.Mode) error {
	if m == p.Mode || slices.Contains(p.AllowedModes, m.String()) {
		return nil
	}
	allowed := p.AllowedModes
	if !slices.Contains(allowed, p.Mode.String()) {
		allowed = append([]string{p.Mode.String()}, allowed...)
	}
	return fmt.Errorf("must be one of %s (inbox.allowed_modes)", strings.Join(allowed, ", "))
}

// OverrideKeys lists the policies that a session may have of its own.
func OverrideKeys() []string { return slices.Sorted(maps.Keys(overridable)) }

// Overridable is true for the policies that a session may have of its own.
func Overridable(key string) bool { return overridable[key] != nil }

// Changes are those of the overrides said that differ from the session's own; null takes
// one away. An error says what is wrong with them.
func (p Policy) Changes(own, said conversation.Overrides) (conversation.Overrides, *conversation.Error) {
	var changed conversation.Overrides
	was := Canonical(own)
	for _, key := range slices.Sorted(maps.Keys(said)) { // of two that are wrong the first one is named
		value := Canonical(said)[key]
		removed := string(value) == "null" || said[key] == nil
		if !removed || !Overridable(key) {
			if _, err := p.With(conversation.Overrides{key: value}); err != nil {
				return nil, err
			}
		}
		old, had := was[key]
		if removed && !had || !removed && had && string(old) == string(value) {
			continue
		}
		if changed == nil {
			changed = conversation.Overrides{}
		}
		if removed {
			value = []byte("null")
		}
		changed[key] = value
	}
	return changed, nil
}

// Canonical is the one spelling of the overrides that are stored: that of a
// snapshot, so that a session which was restored has what it had before. A value that
// is no JSON stays as it is.
func Canonical(o conversation.Overrides) conversation.Overrides {
	if len(o) == 0 {
		return nil
	}
	same := conversation.Overrides{}
	for key, value := range o {
		same[key] = canonical(value)
	}
	return same
}

func canonical(raw json.RawMessage) json.RawMessage {
	var value any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // numbers keep their digits
	if err := d.Decode(&value); err != nil {
		return raw
	}
	text, err := json.Marshal(value)
	if err != nil {
		return raw
	}
	return text
}

// override puts a value into a session's own policy, within what is configured.
type override func(own, configured *Policy, value json.RawMessage) error

var overridable = map[string]override{
	"inbox.mode":              mode,
	"inbox.collect_window":    duration(zeroIsLeast, func(p *Policy) *time.Duration { return &p.CollectWindow }),
	"inbox.max_queued":        count(0, zeroIsNone, func(p *Policy) *int { return &p.MaxQueued }),
	"inbox.triage_agent":      text(func(p *Policy) *string { return (*string)(&p.TriageAgent) }),
	"coverage.mode":           choice(coverageNames[:], func(p *Policy, i int) { p.Coverage = Coverage(i) }),
	"coverage.max_nudges":     count(0, zeroIsLeast, func(p *Policy) *int { return &p.MaxNudges }),
	"task.max_steps":          count(1, zeroIsLeast, func(p *Policy) *int { return &p.MaxSteps }),
	"reply.on_busy":           choice(replyOnBusyNames[:], func(p *Policy, i int) { p.ReplyOnBusy = ReplyOnBusy(i) }),
	"empty_answer":            choice(emptyAnswerNames[:], func(p *Policy, i int) { p.EmptyAnswer = EmptyAnswer(i) }),
	"no_reply.sentinels":      list(func(p *Policy) *[]string { return &p.Sentinels }),
	"no_reply.fallback":       truth(func(p *Policy) *bool { return &p.Fallback }),
	"parts.enabled":           truth(func(p *Policy) *bool { return &p.PartsEnabled }),
	"retry.max_attempts":      count(1, zeroIsLeast, func(p *Policy) *int { return &p.MaxAttempts }),
	"retry.max_interrupted":   count(1, zeroIsLeast, func(p *Policy) *int { return &p.MaxInterrupts }),
	"retry.max_moved":         count(0, zeroIsLeast, func(p *Policy) *int { return &p.MaxMoved }),
	"retry.backoff_min":       duration(zeroIsLeast, func(p *Policy) *time.Duration { return &p.BackoffMin }),
	"retry.backoff_max":       duration(zeroIsLeast, func(p *Policy) *time.Duration { return &p.BackoffMax }),
	"ask.detect":              choice(askDetectNames[:], func(p *Policy, i int) { p.AskDetect = AskDetect(i) }),
	"cut_answer":              choice(cutAnswerNames[:], func(p *Policy, i int) { p.CutAnswer = CutAnswer(i) }),
	"outside.lease":           duration(zeroIsNone, func(p *Policy) *time.Duration { return &p.OutsideLease }),
	"cancel.grace":            duration(zeroIsLeast, func(p *Policy) *time.Duration { return &p.CancelGrace }),
	"tools.timeout":           duration(zeroIsLeast, func(p *Policy) *time.Duration { return &p.ToolTimeout }),
	"tools.max_parallel":      count(1, zeroIsLeast, func(p *Policy) *int { return &p.MaxTools }),
	"tools.max_questions":     count(0, zeroIsLeast, func(p *Policy) *int { return &p.MaxAsks }),
	"delegation.timeout":      duration(zeroIsLeast, func(p *Policy) *time.Duration { return &p.DelegateTime }),
	"delegation.max_depth":    count(0, zeroIsLeast, func(p *Policy) *int { return &p.MaxDepth }),
	"delegation.max_parallel": count(1, zeroIsLeast, func(p *Policy) *int { return &p.MaxParallel }),
}

// What 0 means as a limit.
const (
	zeroIsLeast = false
	zeroIsNone  = true // no limit at all, which is more than any other
)

// within refuses a limit that is more than the configured one.
func within[N int | time.Duration](n, most N, zeroIsNone bool) error {
	switch {
	case zeroIsNone && most == 0:
		return nil
	case zeroIsNone && n == 0:
		return fmt.Errorf("must not be 0, which is no limit: the server allows %v at most", most)
	case n > most:
		return fmt.Errorf("must be at most %v, which is what the server allows", most)
	}
	return nil
}

// modeNames are those of the modes that can be chosen.
func modeNames() (names []string) {
	for m := conversation.ModeSteer; m <= conversation.ModeReject; m++ {
		names = append(names, m.String())
	}
	return names
}

func mode(own, configured *Policy, raw json.RawMessage) error {
	var chosen conversation.Mode
	set := choice(modeNames(), func(_ *Policy, i int) { chosen = conversation.ModeSteer + conversation.Mode(i) })
	if err := set(own, configured, raw); err != nil {
		return err
	}
	if err := configured.CheckMode(chosen); err != nil {
		return err
	}
	own.Mode = chosen
	return nil
}

func choice(names []string, set func(*Policy, int)) override {
	return func(own, _ *Policy, raw json.RawMessage) error {
		var s string
		err := json.Unmarshal(raw, &s)
		i := slices.Index(names, s)
		if err != nil || i < 0 {
			return fmt.Errorf("must be one of %s", strings.Join(names, ", "))
		}
		set(own, i)
		return nil
	}
}

func count(least int, zeroIsNone bool, field func(*Policy) *int) override {
	return func(own, configured *Policy, raw json.RawMessage) error {
		var n int
		if err := json.Unmarshal(raw, &n); err != nil || n < least {
			return fmt.Errorf("must be a whole number of at least %d", least)
		}
		if err := within(n, *field(configured), zeroIsNone); err != nil {
			return err
		}
		*field(own) = n
		return nil
	}
}

func duration(zeroIsNone bool, field func(*Policy) *time.Duration) override {
	return func(own, configured *Policy, raw json.RawMessage) error {
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return fmt.Errorf(`must be a duration such as "2s"`)
		}
		d, err := time.ParseDuration(s)
		if err != nil || d < 0 {
			return fmt.Errorf(`must be a duration such as "2s"`)
		}
		if err := within(d, *field(configured), zeroIsNone); err != nil {
			return err
		}
		*field(own) = d
		return nil
	}
}

func truth(field func(*Policy) *bool) override {
	return func(own, _ *Policy, raw json.RawMessage) error {
		if err := json.Unmarshal(raw, field(own)); err != nil || string(raw) == "null" {
			return fmt.Errorf("must be true or false")
		}
		return nil
	}
}

func text(field func(*Policy) *string) override {
	return func(own, _ *Policy, raw json.RawMessage) error {
		if err := json.Unmarshal(raw, field(own)); err != nil || string(raw) == "null" {
			return fmt.Errorf("must be a text")
		}
		return nil
	}
}

func list(field func(*Policy) *[]string) override {
	return func(own, _ *Policy, raw json.RawMessage) error {
		var l []string
		if err := json.Unmarshal(raw, &l); err != nil || l == nil {
			return fmt.Errorf("must be a list of texts")
		}
		*field(own) = l
		return nil
	}
}
