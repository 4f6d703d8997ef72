package policy

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/conversation"
)

// Each policy says which way is below what is configured, and that is what holds: a session
// may have the configured value and any below it; above it a user is refused with the key
// and the ceiling, an administrator is not, and what was stored before counts as the ceiling.
func TestCeilings(t *testing.T) {
	fields := reflect.TypeFor[Policy]()
	configured := DefaultPolicy()
	said := map[string]bool{}
	for i := range fields.NumField() {
		f := fields.Field(i)
		key, ok := f.Tag.Lookup("key")
		if !ok {
			continue // Context, Texts, Channels: below
		}
		ceiling := f.Tag.Get("ceiling")
		said[key] = true
		t.Run(key, func(t *testing.T) {
			if (ceiling == "server") == Overridable(key) {
				t.Fatalf("ceiling %q, and a session may have its own: %v", ceiling, Overridable(key))
			}
			at := configured
			v := reflect.ValueOf(&at).Elem().Field(i)
			switch ceiling {
			case "server", "any":
			case "max":
				v.SetInt(v.Int() + 1) // not the default, and with room below
				c := checker{t, key, i, &at}
				c.allowed(v.Int(), v.Int()-1)
				c.refused(v.Int()+1, fmt.Sprint(v.Interface()))
				if f.Tag.Get("none") == "0" {
					c.refused(0, fmt.Sprint(v.Interface()))
					v.SetInt(0)
					c.allowed(0, 1, 1<<19)
				}
			case "modes":
				at.AllowedModes = []string{"queue"}
				c := checker{t, key, i, &at}
				c.allowedJSON(`"queue"`)
				c.refusedJSON(`"interrupt"`, "steer, queue")
			case "size":
				c := checker{t, key, i, &at}
				c.allowedJSON(listOf(32, 64), listOf(1, 2048), `[]`)
				c.refusedJSON(listOf(33, 1), "32 texts of at most 2048 bytes")
				c.refusedJSON(listOf(1, 2049), "32 texts of at most 2048 bytes")
				at.Sentinels = make([]string, 40)
				c.allowedJSON(listOf(40, 1))
				c.refusedJSON(listOf(41, 1), "40 texts")
			default:
				t.Fatalf("ceiling %q: say which way is below what is configured", ceiling)
			}
		})
	}
	said["tools.caller"], said["instructions"] = true, true // TestCeilingsOfOwn
	for _, key := range OverrideKeys() {
		if !said[key] {
			t.Errorf("%s: a session may have its own, and no field says which way is below", key)
		}
	}
}

// checker tries values of one policy.
type checker struct {
	t     *testing.T
	key   string
	field int
	under *Policy
}

func listOf(texts, bytes int) string {
	list, _ := json.Marshal(slices.Repeat([]string{strings.Repeat("x", bytes)}, texts))
	return string(list)
}

// text is a value as a session says it.
func (c checker) text(n int64) string {
	if reflect.ValueOf(*c.under).Field(c.field).Type() == reflect.TypeFor[time.Duration]() {
		return `"` + time.Duration(n).String() + `"`
	}
	return fmt.Sprint(n)
}

func (c checker) allowed(values ...int64) {
	c.t.Helper()
	for _, n := range values {
		c.allowedJSON(c.text(n))
	}
}

func (c checker) allowedJSON(values ...string) {
	c.t.Helper()
	for _, value := range values {
		o := conversation.Overrides{c.key: json.RawMessage(value)}
		for _, admin := range []bool{false, true} {
			own, lifted, err := c.under.With(o, admin)
			if err != nil || lifted != nil || !reflect.DeepEqual(c.under.WithStored(o, nil), own) {
				c.t.Errorf("%.60s (admin %v): %v, lifted %v", value, admin, err, lifted)
			}
		}
	}
}

func (c checker) refused(n int64, bound string) { c.t.Helper(); c.refusedJSON(c.text(n), bound) }

func (c checker) refusedJSON(value, bound string) {
	c.t.Helper()
	o := conversation.Overrides{c.key: json.RawMessage(value)}
	if _, _, err := c.under.With(o, false); err == nil || err.Code != conversation.BadRequest || !strings.Contains(err.Message, c.key) || !strings.Contains(err.Message, bound) {
		c.t.Errorf("%.60s: %v, want a bad_request with %s and %s", value, err, c.key, bound)
	}
	if !reflect.DeepEqual(c.under.WithStored(o, nil), *c.under) {
		c.t.Errorf("%.60s holds where it was stored", value)
	}
	own, lifted, err := c.under.With(o, true)
	if err != nil || !slices.Equal(lifted, []string{c.key}) || !reflect.DeepEqual(c.under.WithStored(o, lifted), own) || reflect.DeepEqual(own, *c.under) {
		c.t.Errorf("%.60s from an administrator: %v, lifted %v", value, err, lifted)
	}
}

// What makes no sense is refused from an administrator too.
func TestBoundsForAll(t *testing.T) {
	for key, value := range map[string]string{
		"task.max_steps": `100001`, "inbox.max_queued": `1000001`, "retry.max_attempts": `101`, "delegation.max_depth": `17`,
		"inbox.collect_window": `"2h"`, "cancel.grace": `"-1s"`, "inbox.mode": `"shout"`, "inbox.triage_agent": `"` + strings.Repeat("a", 129) + `"`,
	} {
		if _, _, err := DefaultPolicy().With(conversation.Overrides{key: json.RawMessage(value)}, true); err == nil || err.Code != conversation.BadRequest || !strings.Contains(err.Message, key) {
			t.Errorf("%s = %s: %v", key, value, err)
		}
	}
}

// Which policies change, and which of them an administrator lifts: what is lifted may be
// said again by anybody, what another one says later is within the ceiling again.
func TestChangesOfLifted(t *testing.T) {
	p := DefaultPolicy()
	raw := func(s string) conversation.Overrides {
		return conversation.Overrides{"task.max_steps": json.RawMessage(s)}
	}
	for _, test := range []struct {
		what       string
		own        conversation.Overrides
		lifted     bool
		said       string
		admin      bool
		want       string // the change; "" = none
		wantLifted bool
		refused    bool
	}{
		{what: "a user, above", said: "31", refused: true},
		{what: "an administrator, above", said: "31", admin: true, want: "31", wantLifted: true},
		{what: "an administrator, below", said: "29", admin: true, want: "29"},
		{what: "a user says what is lifted", own: raw("31"), lifted: true, said: "31"},
		{what: "a user, more than is lifted", own: raw("31"), lifted: true, said: "32", refused: true},
		{what: "a user, less again", own: raw("31"), lifted: true, said: "5", want: "5"},
		{what: "a user takes it away", own: raw("31"), lifted: true, said: "null", want: "null"},
		{what: "stored under a higher ceiling, by a user", own: raw("31"), said: "31", refused: true},
		{what: "stored under a higher ceiling, by an administrator", own: raw("31"), said: "31", admin: true, want: "31", wantLifted: true},
	} {
		var before []string
		if test.lifted {
			before = []string{"task.max_steps"}
		}
		changed, lifted, err := p.Changes(test.own, before, raw(test.said), test.admin)
		if (err != nil) != test.refused || string(changed["task.max_steps"]) != test.want || (lifted != nil) != test.wantLifted {
			t.Errorf("%s: %s, lifted %v, %v", test.what, changed["task.max_steps"], lifted, err)
		}
	}
}
