package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/internal/config"
	"parley/conversation"
	"parley/conversation/attached"
	"parley/conversation/machine/machinetest"
	"parley/conversation/tokens"
	"parley/models/anthropic"
	"parley/models/given"
	"parley/models/modelstest"
	"parley/models/openai"
	"parley/persistence/persistencetest"
	"parley/tools/builtin"
)

// Providers cache by prefix: what a step shows is, byte for byte, what the next step
// begins with, but for the engine's note and the marks for the cache. So it is over
// steps with tools, with a message that comes meanwhile, a question and its answer, a
// delegation that goes on beside the steps, a reminder, and from one task to the next.
func TestStepsShareTheirPrefix(t *testing.T) {
	shareTheirPrefix(t, wires(), conversationSteps(t))
}

// So it is with files: of the first message, and of one that comes meanwhile.
func TestStepsWithFilesShareTheirPrefix(t *testing.T) {
	var files []attached.File
	for name, kind := range map[string]string{"a.png": "image/png", "b.txt": "text/plain", "gone.txt": "text/plain"} {
		files = append(files, attached.File{Name: name, Type: kind, Hash: attached.HashOf(bodyOf(name)), Size: int64(len(bodyOf(name)))})
	}
	requests := conversationSteps(t, files...)
	for i := range requests {
		requests[i].File = func(_ context.Context, f attached.File) ([]byte, error) {
			if f.Name == "gone.txt" {
				return nil, errors.New("no such file")
			}
			return bodyOf(f.Name), nil
		}
	}
	for _, sees := range []bool{true, false} {
		seeing := wires()
		for name, dial := range seeing {
			seeing[name] = func(c openai.Connection) (conversation.Model, error) {
				m, err := dial(c)
				return given.New(m, given.Options{Sees: sees, Pictures: 20, PictureBytes: 1 << 20, Text: 1 << 10, Texts: 1 << 20}), err
			}
		}
		for name, body := range shareTheirPrefix(t, seeing, requests) {
			for text, times := range map[string]int{"what is in b.txt": 2, "a.png, image/png": 2, "gone.txt, text/plain, 19 bytes; not shown": 2, "d2hhdCBpcyBpbiBhLnBuZw==": 2} {
				if !sees && strings.HasPrefix(text, "d2") {
					times = 0
				}
				if n := strings.Count(body, text); n != times {
					t.Errorf("%s, sees %v: %q is %d times in the last request", name, sees, text, n)
				}
			}
		}
	}
}

func bodyOf(name string) []byte { return []byte("what is in " + name) }

// shareTheirPrefix returns the last request of each wire.
func shareTheirPrefix(t *testing.T, wires map[string]func(openai.Connection) (conversation.Model, error), requests []conversation.Request) map[string]string {
	t.Helper()
	last := map[string]string{}
	for name, dial := range wires {
		t.Run(name, func(t *testing.T) {
			var before wireRequest
			for i, body := range send(t, dial, requests) {
				now := readRequest(t, modelstest.WithoutMarks(body))
				if i > 0 && (now.tools != before.tools || now.system != before.system) {
					t.Errorf("step %d: the tools or the prompt are other ones", i+1)
				}
				shown := before.messages
				if i > 0 && requests[i-1].Note != "" {
					shown = upToNote(shown, requests[i-1].Note)
				}
				if shown = strings.TrimRight(shown, `"]}`); !strings.HasPrefix(now.messages, shown) {
					t.Errorf("step %d shows\n%s\nwhich does not begin with\n%s", i+1, now.messages, shown)
				}
				before, last[name] = now, body
			}
		})
	}
	return last
}

// upToNote is what stands before the note, at the end of a JSON text or in a block behind it.
func upToNote(messages, note string) string {
	at := strings.LastIndex(messages, quotedInside(note))
	before := strings.TrimSuffix(messages[:max(at, 0)], `\n\n`)
	before = strings.TrimSuffix(before, `,{"text":"`)
	return before
}

// What ten steps with tools cost at the Messages API: most of what is sent was kept when
// an earlier step had sent it. Without marks nothing is.
func TestStepsAreCached(t *testing.T) {
	requests := conversationSteps(t)[:10]
	for _, cache := range []bool{false, true} {
		o := anthropic.DefaultOptions()
		o.Cache = cache
		kept := modelstest.PromptCache{Least: 1024 * tokens.BytesEach}
		all, found, before := 0, 0, []int{0, 0}
		for i, body := range send(t, func(c openai.Connection) (conversation.Model, error) {
			o.Connection = c
			return anthropic.New(o)
		}, requests) {
			sent, cached := kept.Ask(body)
			t.Logf("cache = %v: step %2d: %6d bytes sent, %6d of them cached", cache, i+1, sent, cached)
			// The results that end with the note are kept when the next step shows them without it.
			if cache && cached < before[i] {
				t.Errorf("step %d: %d bytes are cached, and step %d has sent %d", i+1, cached, i-1, before[i])
			}
			const note = 100 // bytes of one, and more
			all, found, before = all+sent, found+cached, append(before, sent-note)
		}
		t.Logf("cache = %v: %d bytes sent, %d of them cached: %d %%", cache, all, found, 100*found/all)
		if !cache && found > 0 || cache && 100*found/all < 80 {
			t.Errorf("cache = %v: %d of %d bytes were cached", cache, found, all)
		}
	}
}

// conversationSteps are the requests of the steps of two tasks, with the prompt and the tools of
// the default configuration. Two messages have the files.
func conversationSteps(t *testing.T, files ...attached.File) []conversation.Request {
	t.Helper()
	c := config.Default()
	rules := config.Rules(&c, builtin.New(builtin.Options{Log: persistencetest.NewMemory()}), "")
	store := persistencetest.NewMemory()
	w := machinetest.New(store)
	w.Rules = &rules
	key := conversation.SessionKey{Tenant: "t", Session: "s1"}
	do := func(command conversation.Command) {
		t.Helper()
		if _, err := w.Do(key, command); err != nil {
			t.Fatal(err)
		}
	}
	clock := machinetest.Call("clock", `{}`)
	steps := [][]conversation.Item{
		{clock},
		{machinetest.Text("One moment."), clock, clock},
		{machinetest.Call(conversation.ToolAsk, `{"question":"Which city?","blocking":false}`)},
		{machinetest.Call(conversation.ToolDelegate, `{"agent":"researcher","objective":"find the dates"}`), clock},
		{clock},
		{machinetest.Call(conversation.ToolAsk, `{"question":"May I book?"}`)},
		slices.Repeat([]conversation.Item{clock}, 15),
		{machinetest.Call(conversation.ToolRespond, `{"message":"It is under way.","inReplyTo":1}`)},
		{clock},
		{machinetest.Text("All is done.")}, // a reminder follows
		{machinetest.Call(conversation.ToolCover, `{"messageId":2,"as":"amendment"}`), machinetest.Text("With a window seat.")},
		{clock}, // of the next task
		{machinetest.Text("It is nine.")},
	}
	var requests []conversation.Request
	var researcher *machinetest.Session
	calls := 0
	w.Tool = func(*machinetest.Session, conversation.RunTool) (string, bool) {
		return `{"now":"2026-11-21T09:00:00Z","zone":"UTC","offset":0,"weekday":"Saturday","week":47}`, true
	}
	w.Model = func(s *machinetest.Session, r conversation.Request) conversation.Command {
		if s.Key != key {
			researcher = s // it works until the test lets it answer
		}
		if s.Key != key || len(requests) == len(steps) {
			return nil
		}
		items := slices.Clone(steps[len(requests)])
		for i := range items {
			if items[i].Kind == conversation.ItemCall {
				calls++
				items[i].ID = fmt.Sprint("call_", calls)
			}
		}
		requests = append(requests, r)
		if len(requests) == 2 { // a message comes while the model thinks
			w.Tell(key, conversation.Say{Author: "ann", ClientMsgID: "b", Text: "And a window seat, please.", Files: files}, nil)
		}
		return conversation.ModelAnswered{
			Step: r.Step, Attempt: r.Attempt, Model: "m", Shown: r.Open,
			Answer: conversation.ModelAnswer{ResponseID: fmt.Sprint("r", r.Step), Items: items},
		}
	}
	do(conversation.Create{Owner: "ann"})
	for _, f := range files {
		if _, _, err := store.Blobs().Put(t.Context(), key, f, time.Now(), bodyOf(f.Name)); err != nil {
			t.Fatal(err)
		}
	}
	do(conversation.Say{Author: "ann", ClientMsgID: "a", Text: "Book me a seat on the train to the meeting, and tell me when it leaves.", Files: files})
	do(conversation.Say{Author: "ann", ClientMsgID: "c", Text: "Is it under way?"}) // the delegation still runs
	researcher.Answer(machinetest.Text("The 3rd and the 4th."))
	do(conversation.Say{Author: "ann", ClientMsgID: "d", Text: "yes"})
	do(conversation.Say{Author: "ann", ClientMsgID: "e", Text: "What time is it?", Mode: conversation.ModeQueue})
	if len(requests) < len(steps) {
		t.Fatalf("%d steps were asked for, want %d", len(requests), len(steps))
	}
	if first, second := requests[0].Task, requests[len(requests)-1].Task; first == second {
		t.Errorf("all steps are of the task %s", first)
	}
	last := fmt.Sprint(requests[len(requests)-1].Entries)
	for _, shown := range []string{"And a window seat", "The 3rd and the 4th", "its result follows", "yes", "reminder", "What time is it?"} {
		if !strings.Contains(last, shown) {
			t.Errorf("%q is not in the last request: %s", shown, last)
		}
	}
	return requests
}

// wires are the wire formats of the adapters.
func wires() map[string]func(openai.Connection) (conversation.Model, error) {
	of := func(api openai.API) func(openai.Connection) (conversation.Model, error) {
		return func(c openai.Connection) (conversation.Model, error) {
			return openai.New(openai.Options{API: api, Connection: c})
		}
	}
	return map[string]func(openai.Connection) (conversation.Model, error){
		"openai, responses": of(openai.Responses), "openai, chat": of(openai.Chat),
		"anthropic": func(c openai.Connection) (conversation.Model, error) {
			return anthropic.New(anthropic.Options{Cache: true, Connection: c})
		},
	}
}

// send asks a model for each request, and returns the bodies that its provider got.
func send(t *testing.T, dial func(openai.Connection) (conversation.Model, error), requests []conversation.Request) (bodies []string) {
	t.Helper()
	url := modelstest.Bodies(t, func(body string) { bodies = append(bodies, body) })
	m, err := dial(openai.Connection{BaseURL: url, Model: "m", MaxOutputTokens: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if closer, can := m.(io.Closer); can {
		defer func() { _ = closer.Close() }()
	}
	for _, r := range requests {
		_, _, _ = modelstest.Collect(t.Context(), m, r) // the answer does not matter
	}
	if len(bodies) != len(requests) {
		t.Fatalf("%d requests were sent, want %d", len(bodies), len(requests))
	}
	return bodies
}

// wireRequest is a body in the order in which providers read it.
type wireRequest struct{ tools, system, messages string }

func readRequest(t *testing.T, body string) wireRequest {
	t.Helper()
	var in struct {
		Tools, System, Instructions, Input, Messages json.RawMessage
	}
	if err := json.Unmarshal([]byte(body), &in); err != nil {
		t.Fatal(err)
	}
	return wireRequest{string(in.Tools), string(in.System) + string(in.Instructions), string(in.Messages) + string(in.Input)}
}

// quotedInside is a text as it stands inside of a JSON string.
func quotedInside(text string) string {
	raw, err := json.Marshal(text)
	if err != nil {
		panic(err) // a text
	}
	return string(raw[1 : len(raw)-1])
}
