package machine

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/policy"
)

// A session's override that an older configuration allowed must not keep the
// session from being loaded: it is left out, the others hold.
func TestOverridesOfTheLog(t *testing.T) {
	s := New(conversation.SessionKey{Tenant: "t", Session: "s"}, testRules())
	err := s.Apply(conversation.Event{Seq: 1, Body: conversation.SessionCreated{Agent: conversation.Coordinator, Policy: conversation.Overrides{
		"task.max_steps": json.RawMessage(`0`), "inbox.gone": json.RawMessage(`1`), "inbox.mode": json.RawMessage(`"queue"`),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if p := s.Policy(); p.MaxSteps != 30 || p.Mode != conversation.ModeQueue {
		t.Errorf("max_steps %d, mode %s", p.MaxSteps, p.Mode)
	}
}

// The back-off is full jitter within an exponential limit, never above
// retry.backoff_max, and never below what the provider has asked for.
func TestBackoff(t *testing.T) {
	s := New(conversation.SessionKey{Tenant: "t", Session: "s"}, testRules())
	const most = 0.999999999
	tests := []struct {
		retries    int
		jitter     float64
		retryAfter time.Duration
		want       time.Duration
	}{
		{0, 0, 0, 0},
		{0, 0.5, 0, 500 * time.Millisecond},
		{0, most, 0, time.Second},
		{1, 0.5, 0, time.Second},
		{3, most, 0, 8 * time.Second},
		{10, most, 0, 30 * time.Second},
		{1000, most, 0, 30 * time.Second},
		{0, 0.5, 5 * time.Second, 5 * time.Second},
		{9, 0.5, 5 * time.Second, 15 * time.Second},
		{0, 0, time.Minute, time.Minute},
		{0, most, 5 * time.Minute, 5 * time.Minute},
		{0, 0, 1500100 * time.Microsecond, 1501 * time.Millisecond}, // a time is stored in milliseconds
	}
	for _, test := range tests {
		if got := s.policy.Backoff(test.retries, test.jitter, test.retryAfter); got != test.want {
			t.Errorf("backoff(%d, %v, %v) = %v, want %v", test.retries, test.jitter, test.retryAfter, got, test.want)
		}
	}
}

// What a session brings leaves room for a conversation, in each command that decides it: a
// new session, other policies, another agent.
func TestOwnHasRoom(t *testing.T) {
	rules := testRules()
	small := rules.Agents["researcher"]
	small.Windows = []policy.Window{{Model: "m", Own: true, Context: 1000, Answer: 400}}
	rules.Agents["researcher"] = small
	long := conversation.Overrides{"instructions": json.RawMessage(`"` + strings.Repeat("word ", 250) + `"`)}
	brief := conversation.Overrides{"instructions": json.RawMessage(`"Be brief."`)}
	refused := func(s *Session, c conversation.Command) {
		t.Helper()
		if d := s.Decide(conversation.Inputs{}, c); d.Err == nil || d.Err.Code != conversation.BadRequest || !strings.Contains(d.Err.Message, "policy instructions") || len(d.Events) != 0 {
			t.Errorf("%T: %v, %d events", c, d.Err, len(d.Events))
		}
	}
	taken := func(s *Session, c conversation.Command) {
		t.Helper()
		if d := s.Decide(conversation.Inputs{}, c); d.Err != nil {
			t.Errorf("%T: %v", c, d.Err)
		}
	}
	key := conversation.SessionKey{Tenant: "t", Session: "s"}
	s := New(key, rules)
	refused(s, conversation.Create{Agent: "researcher", Policy: long})
	taken(s, conversation.Create{Agent: "researcher", Policy: brief})
	refused(s, conversation.Update{Policy: long})
	taken(s, conversation.Update{Agent: "developer", Policy: long})
	refused(s, conversation.Update{Agent: "researcher"})
	taken(s, conversation.Update{Agent: "researcher", Policy: conversation.Overrides{"instructions": nil}})
	if s.Own() != nil {
		t.Errorf("%+v", s.Own())
	}
}
