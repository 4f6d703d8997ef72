package uistream_test

import (
	"bufio"
	"context"
	"encoding/json"
	"testing"

	"parley/conversation"
	"parley/conversation/machine/machinetest"
	"parley/gateway/gatewaytest"
	"parley/gateway/waystest"
)

func TestMain(m *testing.M) { waystest.Main(m) }

// rig is a running server with a stand-in for the engine: the test plays the model.
type rig struct {
	*waystest.Rig
	t        *testing.T
	sessions *gatewaytest.Sessions
	url      string
	stop     func() error
}

type setup = waystest.Setup

func begin(t *testing.T, changes ...setup) *rig {
	t.Helper()
	s := waystest.Begin(t, changes...)
	return &rig{s, t, s.Sessions, s.URL, s.Stop}
}

var withKeys = waystest.WithKeys

// answer is what a request was answered with.
type answer struct {
	*waystest.Reply
	t    *testing.T
	body *bufio.Reader
	end  context.CancelFunc
}

// call makes a request. Headers come in pairs.
func (r *rig) call(method, path, body string, headers ...string) *answer {
	r.t.Helper()
	a := r.Call(method, path, body, headers...)
	return &answer{a, r.t, a.Lines, a.End}
}

func (a *answer) all() string { a.t.Helper(); return a.All() }

func (a *answer) want(status int) *answer { a.t.Helper(); a.Want(status); return a }

func (a *answer) until(text string) string { a.t.Helper(); return a.Until(text) }

// says is the body of a request with a message of the user; more is put before it.
func says(chat, id, text, more string) string {
	b, _ := json.Marshal(text)
	return `{` + more + `"id":"` + chat + `","trigger":"submit-message","messages":[{"id":"` + id + `","role":"user","parts":[{"type":"text","text":` + string(b) + `}]}]}`
}

// key is the session of a chat, as the page that is loaded shows it.
func (r *rig) key(chat string, headers ...string) conversation.SessionKey {
	r.t.Helper()
	var page struct{ Session string }
	if err := json.Unmarshal([]byte(r.call("GET", "/api/ui/chat/"+chat, "", headers...).want(200).all()), &page); err != nil {
		r.t.Fatal(err)
	}
	return gatewaytest.Key(page.Session)
}

// page is what a page that is loaded shows: the texts of its messages, with those who speak.
func (r *rig) page(path string, headers ...string) (told []string, previous string) {
	r.t.Helper()
	var page struct {
		Messages []struct {
			ID, Role string
			Parts    []struct{ Type, Text string }
		}
		Previous *string
	}
	body := r.call("GET", path, "", headers...).want(200).all()
	if err := json.Unmarshal([]byte(body), &page); err != nil {
		r.t.Fatalf("%v: %s", err, body)
	}
	for _, m := range page.Messages {
		text := ""
		for _, p := range m.Parts {
			text += p.Text
		}
		told = append(told, m.Role[:1]+" "+m.ID+" "+text)
	}
	if page.Previous != nil {
		previous = *page.Previous
	}
	return told, previous
}

// model plays the open model call of a session.
func (r *rig) model(key conversation.SessionKey, items ...conversation.Item) {
	r.sessions.Model(key, items...)
}

var call = machinetest.Call

// text is a text of the model, which may have streamed.
func text(s string) conversation.Item {
	return conversation.Item{Kind: conversation.ItemText, Text: s, Streamed: true}
}
