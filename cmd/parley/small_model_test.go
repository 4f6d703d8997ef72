package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"parley/conversation/tokens"
)

// smallModel is a server of Chat Completions whose model holds so many tokens. As
// providers do, it refuses a request that leaves no room for its answer.
type smallModel struct {
	t                 *testing.T
	holds, answer     int
	answered, refused atomic.Int64
	url               string
}

func newSmallModel(t *testing.T, holds, answer int) *smallModel {
	m := &smallModel{t: t, holds: holds, answer: answer}
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	m.url = server.URL
	return m
}

func (m *smallModel) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	raw, err := io.ReadAll(req.Body)
	if err != nil {
		return // the caller has given up
	}
	var in struct {
		Tools    json.RawMessage `json:"tools"`
		Messages []struct {
			Content   string          `json:"content"`
			ToolCalls json.RawMessage `json:"tool_calls"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		m.t.Errorf("the request is no JSON: %v", err)
	}
	size := len(in.Tools) / tokens.BytesEach
	for _, message := range in.Messages {
		size += tokens.PerEntry + (len(message.Content)+len(message.ToolCalls))/tokens.BytesEach
	}
	w.Header().Set("Content-Type", "application/json")
	if size+m.answer > m.holds {
		m.refused.Add(1)
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(w, `{"error":{"message":"This model's maximum context length is %d tokens, and you asked for %d.","code":"context_length_exceeded"}}`, m.holds, size+m.answer)
		return
	}
	m.answered.Add(1)
	message := `{"role":"assistant","content":"` + strings.Repeat("I have read it. ", 60) + `"}`
	_, _ = fmt.Fprintf(w, `{"id":"r%d","choices":[{"index":0,"message":%s,"finish_reason":"stop"}],"usage":{"prompt_tokens":%d,"completion_tokens":9}}`, m.answered.Load(), message, size)
}

// A conversation that outgrows its model goes on where context says what the model holds,
// as an agent's own model and as a fallback; without the key the provider refuses.
func TestSmallModel(t *testing.T) {
	const messages = 20
	talk := func(t *testing.T, config string) (errors int, l *live) {
		l = start(t, t.TempDir(), "--config", write(t, config))
		u := l.user()
		s := u.create(nil)
		u.follow(s, 0)
		for i := range messages {
			u.send(s, fmt.Sprint(i), fmt.Sprintf("message %d: ", i)+strings.Repeat("and so on ", 100))
			for _, f := range of(u.until(done), "response") {
				if f.text("kind") == "error" {
					errors++
				}
			}
		}
		return errors, l
	}
	block := func(name string, m *smallModel, more string) string {
		return fmt.Sprintf("[models.%s]\nprovider = \"openai\"\napi = \"chat\"\nmodel = \"m\"\nstream = false\nbase_url = %q\n%s\n", name, m.url, more)
	}
	for name, c := range map[string]struct {
		context int // 0 = not said
		own     bool
	}{"its own, not said": {0, true}, "its own": {8192, true}, "a fallback, not said": {0, false}, "a fallback": {8192, false}} {
		t.Run(name, func(t *testing.T) {
			local := newSmallModel(t, 8192, 2048)
			config := "[model]\ndefault = \"local\"\n"
			if !c.own {
				away := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
				defer away.Close()
				config = "[model]\ndefault = \"far\"\n" + block("far", &smallModel{url: away.URL}, "fallback = [\"local\"]")
			}
			errors, l := talk(t, config+block("local", local, fmt.Sprint("context = ", c.context)))
			t.Logf("%d of %d messages ended in an error; the model answered %d requests and refused %d", errors, messages, local.answered.Load(), local.refused.Load())
			if refused := local.refused.Load() > 0; refused != (c.context == 0) || errors > 0 != refused {
				t.Errorf("%d requests were refused, %d errors", local.refused.Load(), errors)
			}
			if c.context > 0 && !c.own {
				l.measured(`parley_model_window_over_total{model="local"} 0`)
			}
			l.stop()
			if cut := strings.Contains(l.err.String(), "a request was cut for a model that holds less"); cut != (c.context > 0 && !c.own) {
				t.Errorf("a request was cut for a fallback: %v\n%s", cut, l.end())
			}
			if summarised := strings.Contains(l.err.String(), "the conversation was summarised"); summarised != (c.context > 0 && c.own) {
				t.Errorf("it was summarised: %v\n%s", summarised, l.end())
			}
		})
	}
}
