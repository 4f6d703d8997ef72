package policy

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"parley/conversation"
)

// Every key of docs/POLICIES.md that a session may have of its own: from both
// sides, and nothing else of the policy changes.
func TestOverrides(t *testing.T) {
	good := map[string]struct {
		json string
		set  func(*Policy)
	}{
		"inbox.mode":              {`"collect"`, func(p *Policy) { p.Mode = conversation.ModeCollect }},
		"inbox.collect_window":    {`"1s"`, func(p *Policy) { p.CollectWindow = time.Second }},
		"inbox.max_queued":        {`1000`, func(p *Policy) { p.MaxQueued = 1000 }},
		"inbox.read":              {`"one"`, func(p *Policy) { p.Read = ReadOne }},
		"inbox.triage_agent":      {`"sorter"`, func(p *Policy) { p.TriageAgent = "sorter" }},
		"coverage.mode":           {`"off"`, func(p *Policy) { p.Coverage = CoverageOff }},
		"coverage.max_nudges":     {`0`, func(p *Policy) { p.MaxNudges = 0 }},
		"task.max_steps":          {`1`, func(p *Policy) { p.MaxSteps = 1 }},
		"reply.on_busy":           {`"queue"`, func(p *Policy) { p.ReplyOnBusy = ReplyQueue }},
		"empty_answer":            {`"retry"`, func(p *Policy) { p.EmptyAnswer = EmptyRetry }},
		"no_reply.sentinels":      {`["SILENT"]`, func(p *Policy) { p.Sentinels = []string{"SILENT"} }},
		"no_reply.fallback":       {`true`, func(p *Policy) { p.Fallback = true }},
		"parts.enabled":           {`false`, func(p *Policy) { p.PartsEnabled = false }},
		"retry.max_attempts":      {`1`, func(p *Policy) { p.MaxAttempts = 1 }},
		"retry.max_interrupted":   {`4`, func(p *Policy) { p.MaxInterrupts = 4 }},
		"retry.backoff_min":       {`"0s"`, func(p *Policy) { p.BackoffMin = 0 }},
		"retry.backoff_max":       {`"10s"`, func(p *Policy) { p.BackoffMax = 10 * time.Second }},
		"cancel.grace":            {`"1s"`, func(p *Policy) { p.CancelGrace = time.Second }},
		"tools.timeout":           {`"1m"`, func(p *Policy) { p.ToolTimeout = time.Minute }},
		"tools.max_parallel":      {`2`, func(p *Policy) { p.MaxTools = 2 }},
		"tools.max_questions":     {`0`, func(p *Policy) { p.MaxAsks = 0 }},
		"delegation.timeout":      {`"1m"`, func(p *Policy) { p.DelegateTime = time.Minute }},
		"delegation.max_depth":    {`0`, func(p *Policy) { p.MaxDepth = 0 }},
		"delegation.max_parallel": {`1`, func(p *Policy) { p.MaxParallel = 1 }},
		"ask.detect":              {`"question"`, func(p *Policy) { p.AskDetect = AskDetectQuestion }},
		"cut_answer":              {`"mark"`, func(p *Policy) { p.CutAnswer = CutMark }},
		"outside.lease":           {`"30s"`, func(p *Policy) { p.OutsideLease = 30 * time.Second }},
		"retry.max_moved":         {`7`, func(p *Policy) { p.MaxMoved = 7 }},
		"tools.caller": {`[{"name":"get_weather"}]`, func(p *Policy) {
			p.Own = (*Own)(nil).with(func(o *Own) {
				o.Tools = []ToolRule{{Spec: conversation.ToolSpec{Name: "get_weather", Schema: json.RawMessage(`{"properties":{},"type":"object"}`)}}}
			})
		}},
		"instructions": {`" Be brief.\n"`, func(p *Policy) { p.Own = &Own{Instructions: "Be brief."} }},
	}
	bad := map[string][]string{
		"inbox.mode":           {`""`, `"shout"`, `1`, `null`},
		"inbox.collect_window": {`"soon"`, `"-1s"`, `2`, `null`, `""`},
		"inbox.max_queued":     {`-1`, `1.5`, `"1"`},
		"inbox.read":           {`""`, `"two"`, `1`},
		"inbox.triage_agent":   {`1`, `null`},
		"coverage.mode":        {`""`, `"on"`, `true`},
		"coverage.max_nudges":  {`-1`, `"1"`},
		"task.max_steps":       {`0`, `-1`, `null`},
		"reply.on_busy":        {`""`, `"drop"`},
		"empty_answer":         {`""`, `"shrug"`},
		"no_reply.sentinels":   {`"NO"`, `[1]`, `null`},
		"no_reply.fallback":    {`"true"`, `1`, `null`},
		"parts.enabled":        {`"false"`, `0`, `null`},
		"ask.detect":           {`""`, `"on"`, `true`},
		"cut_answer":           {`""`, `"drop"`, `1`},
		"outside.lease":        {`"-1s"`, `10`},
		"retry.max_moved":      {`-1`, `"1"`},
		"instructions":         {`1`, `null`, `["Be brief."]`, `"a\u0000b"`, `"` + strings.Repeat("x", 16<<10+1) + `"`},
		"tools.caller": {
			`null`, `{}`, `"get_weather"`, `[1]`, `["get_weather"]`, `[null]`, `[{}]`, `[{"name":""}]`, `[{"name":"a b"}]`, `[{"name":"wetter\u00e4"}]`, `[{"name":1}]`,
			`[{"name":"` + strings.Repeat("x", 65) + `"}]`, `[{"name":"a"},{"name":"a"}]`, `[{"name":"askUser"}]`, `[{"name":"delegateToTester"}]`,
			`[{"name":"a","type":"function"}]`, `[{"name":"a","description":1}]`, `[{"name":"a","description":"\u0000"}]`,
			`[{"name":"a","parameters":[]}]`, `[{"name":"a","parameters":{"maximum":1e400}}]`, `[{"name":"a","parameters":"{}"}]`, `[{"name":"a","parameters":{"type":"array"}}]`,
			`[{"name":"a","parameters":{"type":["object","null"]}}]`, `[{"name":"a","parameters":{"properties":[]}}]`,
		},
		"retry.max_attempts":      {`0`},
		"retry.max_interrupted":   {`0`},
		"retry.backoff_min":       {`"-1s"`, `1`},
		"retry.backoff_max":       {`"-1s"`, `1`},
		"cancel.grace":            {`"-1s"`, `7`},
		"tools.timeout":           {`"-1s"`, `60`},
		"tools.max_parallel":      {`0`},
		"tools.max_questions":     {`-1`, `"1"`},
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
			got, _, err := DefaultPolicy().With(conversation.Overrides{key: json.RawMessage(g.json)}, false)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %v\n got %+v\nwant %+v", g.json, err, got, want)
			}
			if len(bad[key]) == 0 {
				t.Error("no bad values")
			}
			for _, value := range bad[key] {
				_, _, err := DefaultPolicy().With(conversation.Overrides{key: json.RawMessage(value)}, false)
				if err == nil || err.Code != conversation.BadRequest || !strings.Contains(err.Message, key) {
					t.Errorf("%s: %v, want a bad_request that names the key", value, err)
				}
			}
		})
	}
	if len(good) != len(OverrideKeys()) {
		t.Errorf("%d keys are tested, there are %d", len(good), len(OverrideKeys()))
	}
	if _, _, err := DefaultPolicy().With(conversation.Overrides{"admission.max_wait": json.RawMessage(`"1s"`)}, true); err == nil || err.Code != conversation.BadRequest {
		t.Errorf("admission is the node's business: %v", err)
	}
}

// What is configured is the most that a session may have: one more is refused with
// the key and the bound, and is left out where it was stored under another
// configuration. No limit at all is more than any other.
func TestOverridesWithinTheConfiguration(t *testing.T) {
	configured := DefaultPolicy()
	configured.AllowedModes = []string{"queue", "collect"}
	unlimited := configured
	unlimited.MaxQueued, unlimited.OutsideLease = 0, 0
	for _, test := range []struct {
		key, value string
		bound      string // in the refusal; "" = allowed
		under      Policy
	}{
		{"inbox.mode", `"queue"`, "", configured},
		{"inbox.mode", `"steer"`, "", configured}, // it holds anyway
		{"inbox.mode", `"interrupt"`, "one of steer, queue, collect (inbox.allowed_modes)", configured},
		{"inbox.mode", `"interrupt"`, "", DefaultPolicy()},
		{"inbox.collect_window", `"3s"`, "at most 2s", configured},
		{"inbox.max_queued", `1001`, "at most 1000", configured},
		{"inbox.max_queued", `0`, "1000 at most", configured},
		{"inbox.max_queued", `0`, "", unlimited},
		{"inbox.max_queued", `999999`, "", unlimited},
		{"coverage.max_nudges", `2`, "at most 1", configured},
		{"task.max_steps", `31`, "at most 30", configured},
		{"task.max_steps", `30`, "", configured},
		{"retry.max_attempts", `4`, "at most 3", configured},
		{"retry.max_interrupted", `6`, "at most 5", configured},
		{"retry.max_moved", `51`, "at most 50", configured},
		{"retry.backoff_min", `"2s"`, "at most 1s", configured},
		{"retry.backoff_max", `"31s"`, "at most 30s", configured},
		{"cancel.grace", `"1000000h"`, "at most 7s", configured},
		{"outside.lease", `"11m"`, "at most 10m0s", configured},
		{"outside.lease", `"0s"`, "10m0s at most", configured},
		{"outside.lease", `"0s"`, "", unlimited},
		{"tools.timeout", `"61s"`, "at most 1m0s", configured},
		{"tools.max_parallel", `33`, "at most 32", configured},
		{"delegation.timeout", `"11m"`, "at most 10m0s", configured},
		{"delegation.max_depth", `4`, "at most 3", configured},
		{"delegation.max_parallel", `9`, "at most 8", configured},
	} {
		o := conversation.Overrides{test.key: json.RawMessage(test.value)}
		own, _, err := test.under.With(o, false)
		if test.bound == "" {
			if err != nil || !reflect.DeepEqual(test.under.WithStored(o, nil), own) {
				t.Errorf("%s = %s: %v", test.key, test.value, err)
			}
			continue
		}
		if err == nil || err.Code != conversation.BadRequest || !strings.Contains(err.Message, test.key) || !strings.Contains(err.Message, test.bound) {
			t.Errorf("%s = %s: %v, want a refusal with %q", test.key, test.value, err, test.bound)
		}
		if !reflect.DeepEqual(test.under.WithStored(o, nil), test.under) {
			t.Errorf("%s = %s holds where it was stored before", test.key, test.value)
		}
	}
	wrong := configured
	wrong.AllowedModes = []string{"queue", "shout"}
	if found := wrong.Validate(); len(found) != 1 || found[0].Key != "inbox.allowed_modes" {
		t.Errorf("a mode that there is not: %v", found)
	}
}

// Overrides are stored in the spelling of a snapshot: a session that was restored
// has the same bytes as one that lives.
func TestCanonical(t *testing.T) {
	said := conversation.Overrides{"no_reply.sentinels": json.RawMessage(" [ \"<silent>\", \"x\\u0061\" ]\n"), "task.max_steps": json.RawMessage("12345678901234567890"), "x": json.RawMessage("{")}
	once := Canonical(said)
	snapshot, err := json.Marshal(conversation.Overrides{"no_reply.sentinels": once["no_reply.sentinels"], "task.max_steps": once["task.max_steps"]})
	want := `{"no_reply.sentinels":["\u003csilent\u003e","xa"],"task.max_steps":12345678901234567890}`
	if err != nil || string(snapshot) != want || string(once["no_reply.sentinels"]) != `["\u003csilent\u003e","xa"]` || string(once["x"]) != "{" {
		t.Errorf("%v: %s, %s", err, once, snapshot)
	}
	if !reflect.DeepEqual(Canonical(once), once) || Canonical(conversation.Overrides{}) != nil {
		t.Error("twice is not once")
	}
}

func TestContextLimits(t *testing.T) {
	good := DefaultPolicy().Context
	for _, test := range []struct {
		name   string
		change func(*Context)
		want   string // in the error; "" = fine
	}{
		{"the default", func(*Context) {}, ""},
		{"no limits", func(c *Context) { *c = Context{} }, ""},
		{"never summarised", func(c *Context) { c.Threshold, c.Keep = 0, 1<<30 }, ""},
		{"no budget", func(c *Context) { c.Budget = 0 }, ""},
		{"just right", func(c *Context) { *c = Context{Budget: 12, Threshold: 11, Keep: 9, Summary: 1} }, ""},
		{"threshold = budget", func(c *Context) { c.Threshold = c.Budget }, "context.threshold = 100000"},
		{"keep + summary = threshold", func(c *Context) { c.Keep = c.Threshold - c.Summary }, "context.keep = 78000"},
		{"no summary", func(c *Context) { c.Summary = 0 }, "context.summary = 0"},
		{"a result fills it", func(c *Context) { c.ToolResult = 4 * c.Budget }, "context.tool_result = 400000"},
		{"negative", func(c *Context) { c.Keep = -1 }, "context.keep = -1"},
	} {
		c := good
		test.change(&c)
		err := c.Check()
		if (err == nil) != (test.want == "") || err != nil && !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}

func TestNames(t *testing.T) {
	for _, s := range []fmt.Stringer{Read(99), Coverage(99), ReplyOnBusy(99), EmptyAnswer(99), AskDetect(99), CutAnswer(99)} {
		if s.String() != "unknown(99)" {
			t.Errorf("%T(99) = %q", s, s)
		}
	}
}

// M-22: streamed text is held back while it may still become a sentinel, and no
// longer.
func TestSentinelPrefix(t *testing.T) {
	p := DefaultPolicy()
	tests := []struct {
		text             string
		prefix, sentinel bool
	}{
		{"", true, false},
		{"N", true, false},
		{"NO", true, false},
		{" NO_RE", true, false},
		{"NO_REPLY", true, true},
		{"NO_REPLY\n", true, true},
		{"NO_REPLY!", false, false},
		{"NOW", false, false},
		{"no", false, false},
		{"@", true, false},
		{"@max", true, false},
		{"@max N", true, false},
		{"@max HEARTBEAT_OK", true, true},
		{"@max hello", false, false},
		{"@max @eva NO_", true, false},
	}
	for _, test := range tests {
		if got := p.SentinelPrefix(test.text); got != test.prefix {
			t.Errorf("SentinelPrefix(%q) = %v", test.text, got)
		}
		if got := p.IsSentinel(test.text); got != test.sentinel {
			t.Errorf("IsSentinel(%q) = %v", test.text, got)
		}
	}
	p.Fallback = true
	if p.SentinelPrefix("NO") || p.IsSentinel("NO_REPLY") {
		t.Error("with no_reply.fallback sentinels are shown as they are")
	}
	p = DefaultPolicy()
	p.Sentinels = nil
	if p.SentinelPrefix("@max") || p.IsSentinel("NO_REPLY") || p.IsSentinel("") {
		t.Error("without sentinels nothing is one")
	}
}
