package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"parley/tools/mcp/internal/finite"
	"parley/tools/mcp/secret"
	"strings"
	"testing"
	"time"
)

func TestOptions(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"":                                               func(*Options) {},
		"give command or url":                            func(o *Options) { o.Servers[0].Command = "" },
		"and not both":                                   func(o *Options) { o.Servers[0].URL = "http://a" },
		"headers go with a url":                          func(o *Options) { o.Servers[0].Headers = map[string]Secret{"A": NewSecret("b")} },
		"args, env and dir go with a command":            func(o *Options) { o.Servers[1].Args = []string{"a"} },
		"singleton goes with a command":                  func(o *Options) { o.Servers[1].Singleton = true },
		"zero byte":                                      func(o *Options) { o.Servers[0].Args = []string{"a\x00"} },
		"a name is 1 to 32":                              func(o *Options) { o.Servers[0].Name = "a b" },
		"two servers of this name":                       func(o *Options) { o.Servers[1].Name = o.Servers[0].Name },
		"must be a whole address":                        func(o *Options) { o.Servers[1].URL = "ftp://a" },
		`mcp "web": url: must be a whole`:                func(o *Options) { o.Servers[1].URL = "/mcp" },
		"must not hold a user or password":               func(o *Options) { o.Servers[1].URL = "https://a:b@c" },
		"must not have a fragment":                       func(o *Options) { o.Servers[1].URL = "https://c/#d" },
		"url: a reference must be":                       func(o *Options) { o.Servers[1].URL = "https://c/${KEY}" },
		`"A B" is not the name of a header`:              func(o *Options) { o.Servers[1].Headers = map[string]Secret{"A B": NewSecret("b")} },
		"mcp-session-id is set by the protocol":          func(o *Options) { o.Servers[1].Headers = map[string]Secret{"mcp-session-id": NewSecret("b")} },
		"headers: A: a reference must be":                func(o *Options) { o.Servers[1].Headers = map[string]Secret{"A": NewSecret("${b}")} },
		"headers: A: must be one line":                   func(o *Options) { o.Servers[1].Headers = map[string]Secret{"A": NewSecret("b\r\nC: d")} },
		"env: \"A=B\" is not the name":                   func(o *Options) { o.Servers[0].Env = map[string]Secret{"A=B": NewSecret("b")} },
		"must be at most 32 letters":                     func(o *Options) { o.Servers[0].Prefix = "a.b" },
		`allow must name tools, or be ["*"]`:             func(o *Options) { o.Servers[0].Allow = nil },
		`approval = "perhaps": must be "ask" or "never"`: func(o *Options) { o.Servers[0].Approval = "perhaps" },
		`"a" is in both ask and never`:                   func(o *Options) { o.Servers[0].Ask, o.Servers[0].Never = []string{"a"}, []string{"a"} },
		"ask and never name tools":                       func(o *Options) { o.Servers[0].Ask = []string{"*"} },
		"timeout must be between 0 and 1h":               func(o *Options) { o.Servers[0].Timeout = -1 },
		"connect_timeout must be more than 0":            func(o *Options) { o.Servers[0].ConnectTimeout = 0 },
		"tools must be at least 1":                       func(o *Options) { o.Limits.Tools = 0 },
		"result must be at least 128":                    func(o *Options) { o.Limits.Result = 127 },
		"backoff_max not less than it":                   func(o *Options) { o.Limits.BackoffMax = o.Limits.BackoffMin - 1 },
		"stop_grace must be more than 0":                 func(o *Options) { o.Limits.StopGrace = 0 },
	} {
		o := Options{Servers: []Server{DefaultServer("files"), DefaultServer("web")}, Limits: DefaultLimits()}
		o.Servers[0].Command, o.Servers[1].URL = "files", "https://example.org/mcp?key=${env:KEY}"
		change(&o)
		err := o.Validate()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	if _, err := Open(t.Context(), Options{}); err == nil {
		t.Error("options without limits are accepted")
	}
	s, err := Open(t.Context(), Options{Limits: DefaultLimits()})
	if err != nil || len(s.Tools()) != 0 || len(s.Status()) != 0 {
		t.Error("without servers:", err)
	}
	s.Close()
}

func TestSecretsAreNeverShown(t *testing.T) {
	s := DefaultServer("a")
	s.Headers = map[string]Secret{"Authorization": NewSecret("Bearer sesame")}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("a", "server", s, "secret", s.Headers["Authorization"])
	slog.New(slog.NewJSONHandler(&log, nil)).Info("a", "server", s, "secret", s.Headers["Authorization"])
	raw, err := json.Marshal(s)
	text := fmt.Sprintf("%v %+v %#v %s %q %x", s, s, s, s.Headers, s.Headers, s.Headers) + string(raw) + log.String()
	if strings.Contains(text, "sesame") || strings.Contains(text, fmt.Sprintf("%x", "sesame")) || strings.Count(text, secret.Hidden) < 8 || err != nil {
		t.Error(text, err)
	}
	var back Secret
	if err := back.UnmarshalText([]byte("${env:A}")); err != nil || back != NewSecret("${env:A}") {
		t.Error(back, err)
	}
	if err := back.UnmarshalText([]byte("${A}")); err == nil {
		t.Error("a reference of another kind is accepted")
	}
}

func TestRedact(t *testing.T) {
	env := func(name string) (string, bool) { return "/home/alice", true }
	s := Server{Env: map[string]Secret{"HOME": NewSecret("${env:HOME}"), "API_KEY": NewSecret("k-123456"), "MODE": NewSecret("production"), "PIN": NewSecret("${env:DB_PASSWORD}x")}, Inherit: []string{"HOME", "PATH"}}
	got, secrets, err := environment(&s, env)
	if err != nil || strings.Join(got, " ") != "PATH=/home/alice API_KEY=k-123456 HOME=/home/alice MODE=production PIN=/home/alicex" {
		t.Error(got, err)
	}
	if strings.Join(secrets, " ") != "k-123456 /home/alice" { // the latter is DB_PASSWORD
		t.Error(secrets)
	}
	r := newRedactor([]string{"Bearer abcdef", "short", ""})
	for text, want := range map[string]string{
		"Bearer abcdef, abcdef": "[secret], [secret]",
		"short \xff":            "short \uFFFD",
	} {
		if got := r.clean(text); got != want {
			t.Errorf("%q becomes %q", text, got)
		}
	}
	if got := (redactor{}).clean("a"); got != "a" {
		t.Error(got)
	}
	sv := &server{}
	if got := sv.reason(fmt.Errorf(`failed (session ID: ABC123): mismatching session IDs "a1" and "b2" x`)); strings.Contains(got, "ABC") || strings.Contains(got, "b2") || !strings.HasSuffix(got, " x") {
		t.Error(got)
	}
}

func TestSchemas(t *testing.T) {
	for raw, want := range map[string]string{ // schema → what models are shown, or "!" and why it is refused
		`null`: `{"properties":{},"type":"object"}`,
		`{}`:   `{"properties":{},"type":"object"}`,
		`{"type":"object","properties":{"a":{"type":"string"}}}`:                `{"properties":{"a":{"type":"string"}},"type":"object"}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}`: `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{},"type":"object"}`,
		`{"type":"array"}`: "!not of type object",
		`{"$ref":"#"}`:     "!without end",
		`[]`:               "!not an object",
		`"a"`:              "!not an object",
		`{"type":"object","properties":{"a":{"$ref":"https://example.org/a"}}}`:                            "!cannot be compiled",
		`{"type":"object","properties":{"a":{"type":5}}}`:                                                  "!cannot be compiled",
		`{"properties":{"a":{"pattern":"^(?!b)"},"pattern":{"enum":[{"pattern":"(?!"}]}},"type":"object"}`: `{"properties":{"a":{"pattern":"^(?!b)"},"pattern":{"enum":[{"pattern":"(?!"}]}},"type":"object"}`,
		`{"additionalProperties":false,"patternProperties":{"^(?!b)":{}},"properties":{},"type":"object"}`: `{"additionalProperties":false,"patternProperties":{"^(?!b)":{}},"properties":{},"type":"object"}`,
		`{"type":"object","description":"` + strings.Repeat("x", 1000) + `"}`:                              "!its schema has",
	} {
		var input any
		if err := json.Unmarshal([]byte(raw), &input); err != nil {
			t.Fatal(err)
		}
		c, err := newArgSchema(input, 500)
		if wrong, ok := strings.CutPrefix(want, "!"); ok {
			if err == nil || !strings.Contains(err.Error(), wrong) {
				t.Errorf("%.100s: %v", raw, err)
			}
			continue
		}
		if err != nil || string(c.shown) != want {
			t.Errorf("%s is shown as %s, %v", raw, c.shown, err)
			continue
		}
		if args, err := c.check("x", nil); err != nil || string(args) != "{}" {
			t.Errorf("%s: no arguments are %s, %v", raw, args, err)
		}
		if _, err := c.check("x", json.RawMessage(`null`)); err == nil {
			t.Errorf("%s accepts null", raw)
		}
	}
}

// A check takes stack for each place of the schema in each step into the value: a thousand
// steps in, where sixty places are behind each other, were more than there is.
func TestDeepArguments(t *testing.T) {
	place := strings.Repeat(`{"allOf":[`, 30) + `{"properties":{"x":{"$ref":"#"}}}` + strings.Repeat("]}", 30)
	c, err := newArgSchema(json.RawMessage(`{"allOf":[`+place+`]}`), 64<<10)
	if err != nil {
		t.Fatal(err)
	}
	for steps, fits := range map[int]bool{finite.MaxNested: true, finite.MaxNested + 1: false, 9000: false} {
		args := strings.Repeat(`{"x":`, steps) + "{}" + strings.Repeat("}", steps)
		if _, err := c.check("x", json.RawMessage(args)); (err == nil) != fits || !fits && !strings.Contains(err.Error(), "nested more than 100 deep") {
			t.Errorf("%d steps: %v", steps, err)
		}
	}
}

// Where choices lead into the same member, each step into the value multiplies the work.
func TestInvolvedArguments(t *testing.T) {
	kind := func(op string) string {
		return `{"type":"object","properties":{"op":{"const":"` + op + `"},"of":{"$ref":"#/$defs/e"}},"required":["op"]}`
	}
	c, err := newArgSchema(json.RawMessage(`{"properties":{"x":{"$ref":"#/$defs/e"},"y":{"items":{"type":["integer","null"]}}},"$defs":{"e":{"anyOf":[`+kind("a")+","+kind("b")+","+kind("c")+`]}}}`), 64<<10)
	if err != nil {
		t.Fatal(err)
	}
	for steps, fits := range map[int]bool{8: true, 10: false, 90: false} {
		args := `{"x":` + strings.Repeat(`{"op":"c","of":`, steps) + `{"op":"c"}` + strings.Repeat("}", steps) + "}"
		if _, err := c.check("x", json.RawMessage(args)); (err == nil) != fits || !fits && !strings.Contains(err.Error(), "too involved") {
			t.Errorf("%d steps: %v", steps, err)
		}
	}
	long := `{"x":{"op":"c","of":{"op":"a"}},"y":[` + strings.Repeat("1,", 100_000) + "1]}"
	if _, err := c.check("x", json.RawMessage(long)); err != nil {
		t.Errorf("long arguments: %v", err)
	}
}

func TestBackoff(t *testing.T) {
	l := Limits{BackoffMin: time.Second, BackoffMax: time.Hour}
	for _, failures := range []int{0, 1, 5, 31, 32, 63, 64, 1000} {
		most := time.Hour
		if failures < 11 {
			most = time.Second << failures
		}
		for range 100 {
			if wait := backoff(l, failures); wait > most || wait < most/2 {
				t.Errorf("after %d failures the wait is %s", failures, wait)
			}
		}
	}
}
