package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"parley/conversation"
	"parley/conversation/option"
)

// With is p, which the configuration says, with the overrides of a session in
// place. What the configuration says is also the most that a session may have, unless an
// administrator says it: lifted are the keys for which he has. An unknown key, a value out
// of range and one beyond the most are a bad_request that names the key and the bound.
func (p Policy) With(o conversation.Overrides, admin bool) (own Policy, lifted []string, err *conversation.Error) {
	if len(o) == 0 { // most sessions; p is large, and a copy that a setter may change is on the heap
		return p, nil, nil
	}
	own = p
	for _, key := range slices.Sorted(maps.Keys(o)) {
		rule, ok := overridable[key]
		if !ok {
			return p, nil, conversation.Errorf(conversation.BadRequest, "%q is not a policy of a session; there are: %s", key, strings.Join(OverrideKeys(), ", "))
		}
		wrong := rule.set(&own, o[key])
		above := wrong == nil && rule.above(&own, &p) != nil
		switch {
		case above && admin:
			wrong = own.outOfBounds(key)
			lifted = append(lifted, key)
		case above:
			wrong = rule.above(&own, &p)
		}
		if wrong != nil {
			return p, nil, conversation.Errorf(conversation.BadRequest, "policy %s: %v", key, wrong)
		}
	}
	return own, lifted, nil
}

// outOfBounds is what is wrong with a value that nobody may set, whoever he is.
func (p Policy) outOfBounds(key string) error {
	for _, wrong := range option.OutOfBounds(p) {
		if wrong.Key == key {
			return errors.New(wrong.Sentence)
		}
	}
	return nil
}

// WithStored is p with those overrides that it still allows, and those that are lifted: a
// session that an older configuration has allowed more must stay loadable. What is above
// what p says now, without having been lifted, counts as what p says.
func (p Policy) WithStored(o conversation.Overrides, lifted []string) Policy {
	own := p
	for key, value := range o {
		next := own
		rule, ok := overridable[key]
		if ok && rule.set(&next, value) == nil && (slices.Contains(lifted, key) || rule.above(&next, &p) == nil) {
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
func Overridable(key string) bool { return overridable[key].set != nil }

// Changes are those of the overrides said that differ from the session's own, and which of
// them an administrator lifts above what is configured; null takes one away. What is lifted
// already may be said again by anybody. An error says what is wrong with them.
func (p Policy) Changes(own conversation.Overrides, ownLifted []string, said conversation.Overrides, admin bool) (changed conversation.Overrides, lifted []string, err *conversation.Error) {
	was := Canonical(own)
	for _, key := range slices.Sorted(maps.Keys(said)) { // of two that are wrong the first one is named
		value := canonical(said[key])
		old, had := was[key]
		removed := string(value) == "null" || said[key] == nil
		same := !removed && had && string(old) == string(value)
		var lifts []string
		if stands := same && slices.Contains(ownLifted, key); !stands && (!removed || !Overridable(key)) {
			if _, lifts, err = p.With(conversation.Overrides{key: value}, admin); err != nil {
				return nil, nil, err
			}
		}
		if removed && !had || same && lifts == nil {
			continue
		}
		if changed == nil {
			changed = conversation.Overrides{}
		}
		if removed {
			value = []byte("null")
		}
		changed[key] = value
		lifted = append(lifted, lifts...)
	}
	return changed, lifted, nil
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

// override is a policy that a session may have of its own.
type override struct {
	set   func(own *Policy, value json.RawMessage) error // within what makes sense
	above func(own, configured *Policy) error            // nil for a value that a session may have by itself; says what the most is
}

var overridable = map[string]override{
	"inbox.mode":              mode,
	"inbox.collect_window":    duration(zeroIsLeast, func(p *Policy) *time.Duration { return &p.CollectWindow }),
	"inbox.max_queued":        count(0, zeroIsNone, func(p *Policy) *int { return &p.MaxQueued }),
	"inbox.read":              choice(readNames[:], func(p *Policy, i int) { p.Read = Read(i) }),
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
	keyCaller:                 caller,
	keyInstructions:           instructions,
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

var mode = override{
	set: choice(modeNames(), func(p *Policy, i int) { p.Mode = conversation.ModeSteer + conversation.Mode(i) }).set,
	above: func(own, configured *Policy) error {
		return configured.CheckMode(own.Mode)
	},
}

// never is for policies of which no value is above another one.
func never(_, _ *Policy) error { return nil }

func choice(names []string, set func(*Policy, int)) override {
	return override{above: never, set: func(own *Policy, raw json.RawMessage) error {
		var s string
		err := json.Unmarshal(raw, &s)
		i := slices.Index(names, s)
		if err != nil || i < 0 {
			return fmt.Errorf("must be one of %s", strings.Join(names, ", "))
		}
		set(own, i)
		return nil
	}}
}

func count(least int, zeroIsNone bool, field func(*Policy) *int) override {
	set := func(own *Policy, raw json.RawMessage) error {
		var n int
		if err := json.Unmarshal(raw, &n); err != nil || n < least {
			return fmt.Errorf("must be a whole number of at least %d", least)
		}
		*field(own) = n
		return nil
	}
	return override{set, func(own, configured *Policy) error { return within(*field(own), *field(configured), zeroIsNone) }}
}

func duration(zeroIsNone bool, field func(*Policy) *time.Duration) override {
	set := func(own *Policy, raw json.RawMessage) error {
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return fmt.Errorf(`must be a duration such as "2s"`)
		}
		d, err := time.ParseDuration(s)
		if err != nil || d < 0 {
			return fmt.Errorf(`must be a duration such as "2s"`)
		}
		*field(own) = d
		return nil
	}
	return override{set, func(own, configured *Policy) error { return within(*field(own), *field(configured), zeroIsNone) }}
}

func truth(field func(*Policy) *bool) override {
	return override{above: never, set: func(own *Policy, raw json.RawMessage) error {
		if err := json.Unmarshal(raw, field(own)); err != nil || string(raw) == "null" {
			return fmt.Errorf("must be true or false")
		}
		return nil
	}}
}

// maxText bounds a text that a session sets, in bytes: it is the name of something.
const maxText = 128

func text(field func(*Policy) *string) override {
	return override{above: never, set: func(own *Policy, raw json.RawMessage) error {
		var s string
		if err := json.Unmarshal(raw, &s); err != nil || string(raw) == "null" || len(s) > maxText {
			return fmt.Errorf("must be a text of at most %d bytes", maxText)
		}
		*field(own) = s
		return nil
	}}
}

// A session's own list of texts is looked through for each text that a model says, and is
// in each snapshot: it has at most so many texts, and bytes in all, or as many as what is
// configured where that is more.
const (
	maxListTexts = 32
	maxListBytes = 2 << 10
)

func list(field func(*Policy) *[]string) override {
	set := func(own *Policy, raw json.RawMessage) error {
		var l []string
		if err := json.Unmarshal(raw, &l); err != nil || l == nil {
			return fmt.Errorf("must be a list of texts")
		}
		*field(own) = l
		return nil
	}
	return override{set, func(own, configured *Policy) error {
		texts, bytes := size(*field(own))
		mostTexts, mostBytes := size(*field(configured))
		mostTexts, mostBytes = max(mostTexts, maxListTexts), max(mostBytes, maxListBytes)
		if texts > mostTexts || bytes > mostBytes {
			return fmt.Errorf("must have at most %d texts of at most %d bytes in all, which is what the server allows", mostTexts, mostBytes)
		}
		return nil
	}}
}

func size(list []string) (texts, bytes int) {
	for _, text := range list {
		bytes += len(text)
	}
	return len(list), bytes
}
