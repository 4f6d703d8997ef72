package anthropic

import (
	"flag"
	"testing"

	"parley/conversation"
	"parley/models/modelstest"
)

var rewrite = flag.Bool("rewrite", false, "write golden files instead of comparing with them")

// What is sent, byte by byte: the provider caches by prefix.
func TestGoldenRequests(t *testing.T) {
	var cases []modelstest.RequestCase
	add := func(name string, o Connection, r conversation.Request) {
		o.Model = "model-1"
		cases = append(cases, modelstest.RequestCase{Name: name, Request: r, Answer: empty, Model: func(t *testing.T, url string) conversation.Model {
			o.BaseURL = url + "/some"
			m, err := New(Options{Connection: o})
			if err != nil {
				t.Fatal(err)
			}
			return m
		}})
	}
	hello := conversation.Request{Session: "s1", Entries: []conversation.Entry{{Role: conversation.RoleUser, Text: "hello"}}}
	full := modelstest.FullRequest("")
	wrapUp := full
	wrapUp.Tools = nil
	closing := full
	closing.MustCall, closing.Tools, closing.Forbidden = true, full.Tools[2:], full.Tools[:2]
	add("calls-alone", Connection{APIKey: "key", Stream: true}, closing)
	add("nothing", Connection{}, conversation.Request{Session: "s1"})
	add("bare", Connection{}, hello)
	add("full", Connection{APIKey: "key", Stream: true}, full)
	add("without-tools", Connection{APIKey: "key", Stream: true}, wrapUp)
	add("options", Connection{
		APIKey: "key", Headers: map[string]string{"X-Extra": "more", "anthropic-beta": "x-1"}, MaxOutputTokens: 900, Temperature: new(0.25),
		Extra: map[string]any{"thinking": map[string]any{"type": "enabled", "budget_tokens": 1024, "a": "<b>"}},
	}, full)
	add("replaced", Connection{
		APIKey: "key", Headers: map[string]string{"Authorization": "Basic more", "Anthropic-Version": "2023-06-01"}, Extra: map[string]any{"metadata": "else & <more>"}, Temperature: new(1.0),
	}, hello)
	cached := full
	cached.Step = 2
	for name, r := range map[string]conversation.Request{"cached": cached, "pictures": modelstest.PicturesRequest()} {
		cases = append(cases, modelstest.RequestCase{Name: name, Request: r, Answer: empty, Model: func(t *testing.T, url string) conversation.Model {
			o := DefaultOptions()
			o.Model, o.BaseURL, o.APIKey = "model-1", url, "key"
			m, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			return m
		}})
	}
	modelstest.GoldenRequests(t, *rewrite, cases)
}
