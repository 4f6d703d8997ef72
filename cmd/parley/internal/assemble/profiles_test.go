package assemble

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/internal/config"
	"parley/conversation"
	"parley/conversation/machine/machinetest"
	"parley/conversation/policy"
	"parley/models/modelstest"
	"parley/models/modelstest/vendors"
	"parley/persistence/persistencetest"
)

// profile is a block of docs/MODELS.md, as it stands there.
type profile struct{ name, block string }

// profiles reads the section "Profiles".
func profiles(t *testing.T) []profile {
	t.Helper()
	text, err := os.ReadFile("../../../../docs/MODELS.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Profiles\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var list []profile
	for _, m := range regexp.MustCompile("(?s)\n\\*\\*([^*]+)\\*\\*.*?```toml\n(.*?)```").FindAllStringSubmatch(section, -1) {
		if strings.Contains(m[2], "[models.") && !strings.Contains(m[2], `provider = "command"`) {
			if n := strings.Count(m[2], "\n"); n > 8 {
				t.Errorf("the profile of %s has %d lines", m[1], n)
			}
			list = append(list, profile{m[1], m[2]})
		}
	}
	return list
}

var (
	baseURL  = regexp.MustCompile(`(?m)^base_url = .*$`)
	provider = regexp.MustCompile(`(?m)^provider = .*$`)
	blockOf  = regexp.MustCompile(`\[models\.([a-z]+)\]`)
	variable = regexp.MustCompile(`(?:key_env = "|env:)([A-Z_]+)`)
)

// at is the profile with another address, and its model as the default one.
func (p profile) at(url string) (text string, environ []string) {
	address := `base_url = "` + url + `"`
	text = p.block
	if baseURL.MatchString(text) {
		text = baseURL.ReplaceAllLiteralString(text, address)
	} else {
		text = provider.ReplaceAllString(text, "$0\n"+address)
	}
	if m := variable.FindStringSubmatch(text); m != nil {
		environ = []string{m[1] + "=" + vendors.Key}
	}
	return "[model]\ndefault = \"" + blockOf.FindStringSubmatch(text)[1] + "\"\n" + text, environ
}

// play is a conversation in which a vendor's stand-in answers: the real machine and the
// real transcript make the requests, the model is made as the configuration says.
type play struct {
	t      *testing.T
	config config.Config
	look   config.Lookup
	server *vendors.Server
	model  conversation.Model
	world  *machinetest.World
	key    conversation.SessionKey
	stream bool

	heard []modelstest.Heard
	tool  func(p *play, run conversation.RunTool) string
	said  int
}

// open makes the model of a profile and a session for it.
func open(t *testing.T, p profile, v *vendors.Vendor, moves ...vendors.Move) *play {
	t.Helper()
	pl := &play{t: t, server: vendors.Start(t, v, moves...), stream: true, key: conversation.SessionKey{Tenant: "default", Session: "s1"}}
	text, environ := p.at(pl.server.URL)
	read, err := config.Load(config.Sources{Path: write(t, text), Required: true, Environ: environ})
	if err != nil {
		t.Fatal(err)
	}
	pl.config, pl.look = read, config.LookupIn(environ)
	models, err := OpenModels(&read, config.LookupIn(environ), slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = models.Close() })
	pl.model = models.Routes[""]
	pl.world = machinetest.New(persistencetest.NewMemory())
	pl.world.Rules.Tools["lookup"] = policy.ToolRule{Spec: conversation.ToolSpec{Name: "lookup", Description: "Looks something up.", Idempotent: true,
		Schema: json.RawMessage(`{"type":"object","properties":{"query":{"type":"string"}},"required":["query"]}`)}}
	pl.world.Model = func(_ *machinetest.Session, r conversation.Request) conversation.Command {
		r.Stream = pl.stream
		heard := modelstest.Ask(t.Context(), pl.model, r)
		pl.heard = append(pl.heard, heard)
		if heard.Err != nil {
			return conversation.ModelFailed{Step: r.Step, Attempt: r.Attempt, Model: "m", Permanent: true,
				Failure: conversation.Failure{Code: conversation.Internal, Message: heard.Err.Error()}}
		}
		return conversation.ModelAnswered{Step: r.Step, Attempt: r.Attempt, Model: "m", Answer: *heard.Done, Shown: r.Open}
	}
	pl.world.Tool = func(_ *machinetest.Session, run conversation.RunTool) (string, bool) {
		if pl.tool != nil {
			return pl.tool(pl, run), true
		}
		return "found it", true
	}
	pl.do(conversation.Create{Owner: "ann"})
	return pl
}

func (p *play) do(c conversation.Command) {
	p.t.Helper()
	if _, err := p.world.Do(p.key, c); err != nil {
		p.t.Fatal(err)
	}
}

func (p *play) say(text string) {
	p.t.Helper()
	p.do(p.message(text))
}

func (p *play) message(text string) conversation.Say {
	p.said++
	return conversation.Say{Author: "ann", ClientMsgID: conversation.ClientMsgID(fmt.Sprint("c", p.said)), Text: text}
}

// answers are the final answers so far. Nothing may have been refused.
func (p *play) answers(want ...string) {
	p.t.Helper()
	for _, refused := range p.server.Refused() {
		p.t.Errorf("refused: %s", refused)
	}
	for _, h := range p.heard {
		if h.Err != nil {
			p.t.Errorf("a call failed: %v (%v)", h.Err, errors.Unwrap(h.Err))
		} else if h.Done.Usage.Estimated {
			p.t.Errorf("the vendor counts, and that was not read: %+v", h.Done.Usage)
		}
	}
	var got []string
	for _, e := range p.world.Session(p.key).Events() {
		if b, ok := e.Body.(conversation.Response); ok {
			got = append(got, b.Text)
		}
	}
	if !slices.Equal(got, want) {
		p.t.Errorf("answered %q, want %q", got, want)
	}
}

func says(text string) vendors.Move {
	return vendors.Move{Items: []conversation.Item{machinetest.Text(text)}}
}

func calls(items ...conversation.Item) vendors.Move { return vendors.Move{Items: items} }

func lookup(query string) conversation.Item {
	return machinetest.Call("lookup", `{"query":"`+query+`"}`)
}

// mcpSchema has what schemas of MCP servers have and not every vendor takes.
const mcpSchema = `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","additionalProperties":false,
	"$defs":{"range":{"type":"object","properties":{"from":{"type":"integer"},"to":{"type":["integer","null"]}}}},
	"properties":{"path":{"type":"string","minLength":1},"limit":{"type":["integer","string"]},"range":{"$ref":"#/$defs/range"},
	"sort":{"enum":["name","date"]},"kind":{"const":"file"},"any":{"type":"string","anyOf":[{"minLength":2},{"maxLength":9}]},
	"or":{"anyOf":[{"type":"string"},{"type":"null"}]},"list":{"type":"array","items":{"type":"object","additionalProperties":true}}},
	"required":["path"]}`

// vendorCases are what each profile goes through.
var vendorCases = []struct {
	name string
	run  func(t *testing.T, open func(moves ...vendors.Move) *play)
}{
	{"answer, streamed", func(t *testing.T, open func(moves ...vendors.Move) *play) {
		p := open(says("Hello, Ann."))
		p.say("hello")
		p.answers("Hello, Ann.")
		if p.heard[0].Text != "Hello, Ann." {
			t.Errorf("the deltas make %q", p.heard[0].Text)
		}
	}},
	{"answer, whole", func(t *testing.T, open func(moves ...vendors.Move) *play) {
		p := open(calls(lookup("a")), says("Hello, Ann."))
		p.stream = false
		p.say("hello")
		p.answers("Hello, Ann.")
	}},
	{"tool loop", func(t *testing.T, open func(moves ...vendors.Move) *play) {
		p := open(calls(lookup("a")), calls(machinetest.Text("I look again."), lookup("b")), calls(lookup("c")), says("That is it."))
		p.say("find it")
		p.answers("That is it.")
	}},
	{"two calls at once", func(t *testing.T, open func(moves ...vendors.Move) *play) {
		var ran []string
		p := open(calls(lookup("a"), lookup("b")), calls(lookup("c"), lookup("d")), says("Both."))
		p.tool = func(_ *play, run conversation.RunTool) string {
			ran = append(ran, run.Args)
			return "found"
		}
		p.say("find both")
		p.answers("Both.")
		if want := []string{`{"query":"a"}`, `{"query":"b"}`, `{"query":"c"}`, `{"query":"d"}`}; !slices.Equal(ran, want) {
			t.Errorf("ran %q, want %q", ran, want)
		}
	}},
	{"messages in mid-loop", func(t *testing.T, open func(moves ...vendors.Move) *play) {
		p := open(calls(lookup("a")), calls(machinetest.Call(conversation.ToolRespond, `{"message":"Noon.","inReplyTo":"2"}`)), calls(lookup("b")), says("Found."))
		p.tool = func(p *play, _ conversation.RunTool) string {
			p.world.Tell(p.key, p.message("and what time is it?"), nil)
			return "found"
		}
		p.say("find it")
		for _, refused := range p.server.Refused() {
			if !strings.Contains(refused, "tool_choice") { // while it thinks: it is asked once more, without
				t.Errorf("refused: %s", refused)
			}
		}
		if n := len(p.server.Asked()); n < 4 {
			t.Errorf("only %d requests were taken", n)
		}
	}},
	{"question and answer", func(t *testing.T, open func(moves ...vendors.Move) *play) {
		p := open(calls(machinetest.Call(conversation.ToolAsk, `{"question":"For how many?"}`)), calls(lookup("two")), says("Booked."))
		p.say("book a table")
		p.do(conversation.Reply{Author: "ann", ClientMsgID: "r", Task: "t1-s1", Text: "two"})
		p.answers("Booked.")
	}},
	{"second task", func(t *testing.T, open func(moves ...vendors.Move) *play) {
		p := open(calls(lookup("a")), says("One."), calls(lookup("b")), says("Two."), says("Three."))
		p.say("the first")
		p.say("the second")
		p.say("the third")
		p.answers("One.", "Two.", "Three.")
	}},
	{"cut at the limit", func(t *testing.T, open func(moves ...vendors.Move) *play) {
		p := open(vendors.Move{Items: []conversation.Item{machinetest.Text("As far as it g")}, Stop: conversation.StopLength}, says("oes."))
		p.say("tell me all")
		if got := p.heard[0].Done; got == nil || got.Stop != conversation.StopLength {
			t.Errorf("the answer is %+v", got)
		}
		for _, refused := range p.server.Refused() {
			t.Errorf("refused: %s", refused)
		}
	}},
	{"tools of MCP servers", func(t *testing.T, open func(moves ...vendors.Move) *play) {
		p := open(calls(machinetest.Call("files_read", `{"path":"a"}`)), says("Read."))
		p.world.Rules.Tools["files_read"] = policy.ToolRule{Spec: conversation.ToolSpec{Name: "files_read", Idempotent: true, Schema: json.RawMessage(mcpSchema)}}
		p.say("read it")
		p.answers("Read.")
	}},
	{"tools of the caller", func(t *testing.T, open func(moves ...vendors.Move) *play) {
		p := open(calls(machinetest.Call("files-read", `{"path":"a"}`), machinetest.Call("bare", `{}`)), says("Read."))
		p.do(conversation.Update{By: "ann", Policy: conversation.Overrides{
			"instructions": json.RawMessage(`"Be brief."`),
			"tools.caller": json.RawMessage(`[{"name":"bare"},{"name":"empty","parameters":{}},{"name":"files-read","description":"Reads <a> file.","parameters":` + mcpSchema + `}]`),
		}})
		p.say("read it")
		for i, q := range p.world.Session(p.key).Machine.View().Questions {
			p.do(conversation.Answer{Author: "ann", ClientMsgID: conversation.ClientMsgID(fmt.Sprint("r", i)), Question: q.Asked.Question, Text: `{"text": "<wet> \"é\""}`})
		}
		p.answers("Read.")
	}},
	{"wrap-up without tools", func(t *testing.T, open func(moves ...vendors.Move) *play) {
		p := open(calls(lookup("a")), calls(lookup("b")), says("So far."))
		p.world.Rules.Policy.MaxSteps = 2
		p.say("find it")
		p.answers("So far.")
		asked := p.server.Asked()
		if len(asked) != 3 {
			t.Fatalf("%d requests were taken", len(asked))
		}
		choice, _ := asked[2].Body["tool_choice"].(map[string]any) // tools may be named for what was called before
		if len(asked[2].Tools) > 0 && choice["type"] != "none" {
			t.Errorf("the last request has the tools %q", asked[2].Tools)
		}
	}},
	{"calls alone", func(t *testing.T, open func(moves ...vendors.Move) *play) {
		covers := calls(machinetest.Call(conversation.ToolCover, `{"messageId":"1","as":"answered"}`))
		p := open(calls(lookup("a")), says("Found."), covers, covers)
		var last conversation.Request
		own := p.world.Model
		p.world.Model = func(s *machinetest.Session, r conversation.Request) conversation.Command {
			last = r
			return own(s, r)
		}
		p.say("find it")
		p.answers("Found.")
		last.MustCall, last.Forbidden, last.Tools = true, last.Tools, nil
		for _, tool := range last.Forbidden {
			if tool.Name == conversation.ToolRespond || tool.Name == conversation.ToolCover {
				last.Tools = append(last.Tools, tool)
			}
		}
		for range 2 { // a vendor that refuses to be told is asked without at once, and is not told again
			heard := modelstest.Ask(t.Context(), p.model, last)
			if heard.Err != nil || len(heard.Done.Items) != 1 || heard.Done.Items[0].Tool != conversation.ToolCover {
				t.Fatalf("heard %+v, %v", heard.Done, heard.Err)
			}
		}
		asked, refused := p.server.Asked(), p.server.Refused()
		closing, want := asked[len(asked)-1], "required"
		if len(refused) > 0 {
			want = ""
		}
		if len(refused) > 1 || len(refused) == 1 && !strings.Contains(refused[0], "tool_choice") {
			t.Errorf("refused: %q", refused)
		}
		if closing.Choice != want || !slices.Equal(closing.Tools, []string{conversation.ToolRespond, conversation.ToolCover}) {
			t.Errorf("the choice is %q of %q, want %q", closing.Choice, closing.Tools, want)
		}
	}},
	{"behind another model", func(t *testing.T, open func(moves ...vendors.Move) *play) {
		p := open(calls(lookup("b")), says("Mine."))
		own, first := p.world.Model, true
		p.world.Model = func(s *machinetest.Session, r conversation.Request) conversation.Command {
			if first {
				first = false
				call := lookup("a")
				call.ID = "call_of-another_model-0123456789"
				return conversation.ModelAnswered{Step: r.Step, Attempt: r.Attempt, Model: "other", Answer: conversation.ModelAnswer{Items: []conversation.Item{call}}, Shown: r.Open}
			}
			return own(s, r)
		}
		p.say("find it")
		p.answers("Mine.")
	}},
	{"401, 429, 500", func(t *testing.T, open func(moves ...vendors.Move) *play) {
		for _, c := range []struct {
			status    int
			permanent bool
			code      conversation.Code
		}{{401, true, conversation.Internal}, {429, false, conversation.RateLimited}, {500, false, conversation.Unavailable}} {
			p := open(vendors.Move{Status: c.status})
			p.say("hello")
			failure, ok := errors.AsType[*conversation.ModelError](p.heard[0].Err)
			if !ok || failure.Permanent != c.permanent || failure.Failure.Code != c.code || c.status == 429 && failure.RetryAfter != 7*time.Second {
				t.Errorf("%d: %+v", c.status, p.heard[0])
			} else if !strings.Contains(failure.Err.Error(), "not now") {
				t.Errorf("%d: the log does not say what the vendor said: %v", c.status, failure.Err)
			}
		}
	}},
	{"doctor", func(t *testing.T, open func(moves ...vendors.Move) *play) {
		p := open()
		host := strings.TrimPrefix(strings.TrimSuffix(p.server.URL, p.server.Vendor.Base), "http://")
		name := p.config.Models[0].Name
		if f := Probe(t.Context(), &p.config, p.look, 5*time.Second)[name]; f.Err != nil || f.Says != "listed by "+host {
			t.Errorf("found %q, %v", f.Says, f.Err)
		}
		wrong := func(string) (string, bool) { return "another-key", true }
		f := Probe(t.Context(), &p.config, wrong, 5*time.Second)[name]
		if keyed := len(p.server.Refused()) > 0; keyed && (f.Err == nil || f.Err.Error() != host+" does not accept the key (401)") {
			t.Errorf("with another key: %q, %v", f.Says, f.Err)
		}
		p.config.Models[0].Connection().Model = "no-such-model"
		if f := Probe(t.Context(), &p.config, p.look, 5*time.Second)[name]; f.Err == nil || !strings.Contains(f.Err.Error(), p.server.Vendor.Models[0]) {
			t.Errorf("of another model: %q, %v", f.Says, f.Err)
		}
		if len(p.server.Asked()) > 0 {
			t.Error("the model was asked")
		}
	}},
	{"broken stream", func(t *testing.T, open func(moves ...vendors.Move) *play) {
		for name, move := range map[string]vendors.Move{"break": {Break: true}, "error": {Fails: true}} {
			move.Items = []conversation.Item{machinetest.Text("This is lost.")}
			p := open(move)
			p.say("hello")
			failure, ok := errors.AsType[*conversation.ModelError](p.heard[0].Err)
			if !ok || failure.Permanent {
				t.Errorf("%s: %+v %+v", name, p.heard[0].Done, p.heard[0].Err)
			}
		}
	}},
}

// Each profile of docs/MODELS.md, as it stands there but for the address, through the
// configuration and its adapter against a stand-in with its vendor's refusals.
func TestProfiles(t *testing.T) {
	var columns []modelstest.Column
	list := profiles(t)
	for _, v := range vendors.All() {
		name, variant, _ := strings.Cut(v.Name, ", ")
		i := slices.IndexFunc(list, func(p profile) bool { return p.name == name })
		if i < 0 {
			t.Errorf("docs/MODELS.md has no profile of %s", name)
			continue
		}
		p := list[i]
		if variant != "" { // as its text says: another api, and no include for it
			p.block = regexp.MustCompile(`(?m)^extra = .*$`).ReplaceAllString(p.block, `api = "`+variant+`"`)
		}
		column := modelstest.Column{Adapter: v.Name}
		t.Run(v.Name, func(t *testing.T) {
			for _, c := range vendorCases {
				passed := t.Run(c.name, func(t *testing.T) {
					c.run(t, func(moves ...vendors.Move) *play { return open(t, p, v, moves...) })
				})
				column.Cases = append(column.Cases, modelstest.Case{Name: c.name, Passed: passed})
			}
		})
		columns = append(columns, column)
	}
	for _, p := range list {
		if !slices.ContainsFunc(vendors.All(), func(v *vendors.Vendor) bool { return v.Name == p.name }) {
			t.Errorf("the profile of %s has no stand-in", p.name)
		}
	}
	t.Logf("case × profile:\n%s", modelstest.Table(columns...))
}
