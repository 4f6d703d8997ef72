package openai

import (
	"flag"
	"testing"

	"parley/conversation"
	"parley/models/modelstest"
)

var rewrite = flag.Bool("rewrite", false, "write golden files instead of comparing with them")

// What is sent, byte by byte: servers cache by prefix, and some read fields in
// the order of the references.
func TestGoldenRequests(t *testing.T) {
	var cases []modelstest.RequestCase
	answers := map[API]string{
		Responses: `{"id":"resp_1","output":[{"type":"message","content":[{"type":"output_text","text":"x"}]}]}`,
		Chat:      `{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}`,
	}
	add := func(name string, api API, o Options, full bool) {
		o.API, o.Model = api, "org/model-1"
		model := func(t *testing.T, url string) conversation.Model {
			o.BaseURL = url + "/some/v1"
			m, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		cases = append(cases, modelstest.RequestCase{Name: string(api) + "-" + name, Model: model, Answer: answers[api], Request: conversation.Request{
			Session: "s1", Entries: []conversation.Entry{{Role: conversation.RoleUser, Text: "hello"}},
		}})
		if full {
			// The origin has the address in it, which changes: opaque items have a case of their own.
			cases[len(cases)-1].Request = modelstest.FullRequest("")
		}
	}
	for _, api := range []API{Responses, Chat} {
		add("nothing", api, Options{}, false)
		cases[len(cases)-1].Request.Entries = nil
		add("bare", api, Options{}, false)
		add("full", api, Options{Connection: Connection{APIKey: "key", Stream: true}}, true)
		add("options", api, Options{Alternate: true, Connection: Connection{
			APIKey: "key", Headers: map[string]string{"X-Extra": "more", "OpenAI-Organization": "org"}, MaxOutputTokens: 900, Temperature: new(0.25),
			Extra: map[string]any{"reasoning": map[string]any{"effort": "low", "a": "<b>"}},
		}}, true)
		add("calls-alone", api, Options{Connection: Connection{APIKey: "key", Stream: true}}, true)
		closing := &cases[len(cases)-1].Request
		closing.MustCall, closing.Tools, closing.Forbidden = true, closing.Tools[2:], closing.Tools[:2]
		for name, alternate := range map[string]bool{"pictures": false, "pictures-alternate": true} {
			if alternate && api != Chat {
				continue
			}
			add(name, api, Options{Alternate: alternate}, false)
			cases[len(cases)-1].Request = modelstest.PicturesRequest()
		}
		add("replaced", api, Options{Connection: Connection{
			APIKey: "key", Headers: map[string]string{"Authorization": "Basic more"}, Extra: map[string]any{"user": "else & <more>"}, Temperature: new(1.0),
		}}, false)
	}
	modelstest.GoldenRequests(t, *rewrite, cases)
}
