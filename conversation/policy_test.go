package conversation

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

// Every key of requirements 5 that a session may have of its own: from both
// sides, and nothing else of the policy changes.
func TestOverrides(t *testing.T) {
	good := map[string]struct {
		json string
		set  func(*Policy)
	}{
		"inbox.mode":              {`"collect"`, func(p *Policy) { p.Mode = ModeCollect }},
		"inbox.collect_window":    {`"5s"`, func(p *Policy) { p.CollectWindow = 5 * time.Second }},
		"inbox.max_queued":        {`0`, func(p *Policy) { p.MaxQueued = 0 }},
		"inbox.triage_agent":      {`"sorter"`, func(p *Policy) { p.TriageAgent = "sorter" }},
		"coverage.mode":           {`"off"`, func(p *Policy) { p.Coverage = CoverageOff }},
		"coverage.max_nudges":     {`3`, func(p *Policy) { p.MaxNudges = 3 }},
		"task.max_steps":          {`1`, func(p *Policy) { p.MaxSteps = 1 }},
		"reply.on_busy":           {`"queue"`, func(p *Policy) { p.ReplyOnBusy = ReplyQueue }},
		"empty_answer":            {`"retry"`, func(p *Policy) { p.EmptyAnswer = EmptyRetry }},
		"no_reply.sentinels":      {`["SILENT"]`, func(p *Policy) { p.Sentinels = []string{"SILENT"} }},
		"no_reply.fallback":       {`true`, func(p *Policy) { p.Fallback = true }},
		"parts.enabled":           {`false`, func(p *Policy) { p.PartsEnabled = false }},
		"retry.max_attempts":      {`1`, func(p *Policy) { p.MaxAttempts = 1 }},
		"retry.max_interrupted":   {`9`, func(p *Policy) { p.MaxInterrupts = 9 }},
		"retry.backoff_min":       {`"0s"`, func(p *Policy) { p.BackoffMin = 0 }},
		"retry.backoff_max":       {`"1m"`, func(p *Policy) { p.BackoffMax = time.Minute }},
		"cancel.grace":            {`"1s"`, func(p *Policy) { p.CancelGrace = time.Second }},
		"tools.timeout":           {`"2m"`, func(p *Policy) { p.ToolTimeout = 2 * time.Minute }},
		"delegation.timeout":      {`"1h"`, func(p *Policy) { p.DelegateTime = time.Hour }},
		"delegation.max_depth":    {`0`, func(p *Policy) { p.MaxDepth = 0 }},
		"delegation.max_parallel": {`1`, func(p *Policy) { p.MaxParallel = 1 }},
	}
	bad := map[string][]string{
		"inbox.mode":              {`""`, `"shout"`, `1`, `null`},
		"inbox.collect_window":    {`"soon"`, `"-1s"`, `2`, `null`, `""`},
		"inbox.max_queued":        {`-1`, `1.5`, `"1"`},
		"inbox.triage_agent":      {`1`, `null`},
		"coverage.mode":           {`""`, `"on"`, `true`},
		"coverage.max_nudges":     {`-1`, `"1"`},
		"task.max_steps":          {`0`, `-1`, `null`},
		"reply.on_busy":           {`""`, `"drop"`},
		"empty_answer":            {`""`, `"shrug"`},
		"no_reply.sentinels":      {`"NO"`, `[1]`, `null`},
		"no_reply.fallback":       {`"true"`, `1`, `null`},
		"parts.enabled":           {`"false"`, `0`, `null`},
		"retry.max_attempts":      {`0`},
		"retry.max_interrupted":   {`0`},
		"retry.backoff_min":       {`"-1s"`, `1`},
		"retry.backoff_max":       {`"-1s"`, `1`},
		"cancel.grace":            {`"-1s"`, `7`},
		"tools.timeout":           {`"-1s"`, `60`},
		"delegation.timeout":      {`"-1s"`, `600`},
		"delegation.max_depth":    {`-1`},
		"delegation.max_parallel": {`0`},
	}
	for _, key := range OverrideKeys() {
		t.Run(key, func(t *testing.T) {
			g, ok := good[key]
			if !ok {
				t.Fatal("the test does not know this key")
			}
			want := DefaultPolicy()
			g.set(&want)
			got, err := DefaultPolicy().With(Overrides{key: json.RawMessage(g.json)})
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %v\n got %+v\nwant %+v", g.json, err, got, want)
			}
			if len(bad[key]) == 0 {
				t.Error("no bad values")
			}
			for _, value := range bad[key] {
				_, err := DefaultPolicy().With(Overrides{key: json.RawMessage(value)})
				if err == nil || err.Code != BadRequest || !strings.Contains(err.Message, key) {
					t.Errorf("%s: %v, want a bad_request that names the key", value, err)
				}
			}
		})
	}
	if len(good) != len(OverrideKeys()) {
		t.Errorf("%d keys are tested, there are %d", len(good), len(OverrideKeys()))
	}
	if _, err := DefaultPolicy().With(Overrides{"admission.max_wait": json.RawMessage(`"1s"`)}); err == nil || err.Code != BadRequest {
		t.Errorf("admission is the node's business: %v", err)
	}
}

// A session's override that an older configuration allowed must not keep the
// session from being loaded: it is left out, the others hold.
func TestOverridesOfTheLog(t *testing.T) {
	s := New(SessionKey{"t", "s"}, testRules())
	err := s.Apply(Event{Seq: 1, Body: SessionCreated{Agent: Coordinator, Policy: Overrides{
		"task.max_steps": json.RawMessage(`0`), "inbox.gone": json.RawMessage(`1`), "inbox.mode": json.RawMessage(`"queue"`),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if p := s.Policy(); p.MaxSteps != 30 || p.Mode != ModeQueue {
		t.Errorf("max_steps %d, mode %s", p.MaxSteps, p.Mode)
	}
}

// The back-off is full jitter within an exponential limit, never above
// retry.backoff_max and never below what the provider asked for within it.
func TestBackoff(t *testing.T) {
	s := New(SessionKey{"t", "s"}, testRules())
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
		{0, 0, time.Hour, 30 * time.Second},
	}
	for _, test := range tests {
		if got := s.backoff(test.retries, test.jitter, test.retryAfter); got != test.want {
			t.Errorf("backoff(%d, %v, %v) = %v, want %v", test.retries, test.jitter, test.retryAfter, got, test.want)
		}
	}
}
