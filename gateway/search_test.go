package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"parley/conversation"
	"parley/conversation/machine/machinetest"
	"parley/conversation/search"
	"parley/gateway"
)

// found is a page of a search.
type found struct {
	Items []struct {
		Session, Title, Message, Snippet string
		Seq                              uint64
		Marks                            [][2]int
	}
	Next *string `json:"next_cursor"`
}

// search asks for all pages.
func (r *rig) search(t *testing.T, query string, header ...string) (all []string) {
	t.Helper()
	cursor := ""
	for range 50 {
		var page found
		a := r.call("GET", "/api/sessions?"+query+"&cursor="+url.QueryEscape(cursor), "", header...).want(t, http.StatusOK)
		if err := json.Unmarshal(a.body, &page); err != nil {
			t.Fatal(err)
		}
		for _, i := range page.Items {
			var marked []string
			for _, m := range i.Marks {
				marked = append(marked, string([]rune(i.Snippet)[m[0]:m[1]]))
			}
			if i.Message == "" {
				all = append(all, i.Session+" "+i.Title)
				continue
			}
			all = append(all, fmt.Sprintf("%s %d %s [%s]", i.Message, i.Seq, i.Snippet, strings.Join(marked, " ")))
		}
		if page.Next == nil {
			return all
		}
		cursor = *page.Next
	}
	t.Fatalf("%s has no end", query)
	return nil
}

func wantFound(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s:\n%s\ninstead of\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// PROTOCOL.md, rule 8.1b: titles, also those that a first message made, by the beginnings of
// their words; messages and parts by what they say now.
func TestSearch(t *testing.T) {
	r := start(t)
	for n, text := range []string{"Déploy the *Köln* server", "deployment of 東京タワー\nnow", "nothing here"} {
		id := fmt.Sprintf("s%d", n+1)
		key := r.sessions.Open(id, "local")
		r.call("POST", "/api/sessions/"+id+"/messages", fmt.Sprintf(`{"text":%q,"client_msg_id":"a"}`, text)).want(t, 202)
		r.sessions.Model(key, machinetest.Text("An answer about deploys, "+id))
	}
	r.call("PATCH", "/api/sessions/s3", `{"title":"Deploy, by hand"}`).want(t, 200)
	wantFound(t, "titles", r.search(t, "q=deploy&limit=1"), "s3 Deploy, by hand", "s2 deployment of 東京タワー now", "s1 Déploy the *Köln* server")
	wantFound(t, "titles, by name", r.search(t, "in=titles&q=kol+DEPLOY"), "s1 Déploy the *Köln* server")
	wantFound(t, "titles in a script without spaces", r.search(t, "q="+url.QueryEscape("京タ")), "s2 deployment of 東京タワー now")
	wantFound(t, "no title", r.search(t, "q=eploy"))
	wantFound(t, "messages", r.search(t, "in=messages&q=deploy&limit=2"),
		"p1-s3 6 An answer about deploys, s3 [deploy]", "p1-s2 6 An answer about deploys, s2 [deploy]", "m1-s2 2 deployment of 東京タワー now [deploy]",
		"p1-s1 6 An answer about deploys, s1 [deploy]", "m1-s1 2 Déploy the *Köln* server [Déploy]")
	wantFound(t, "all words", r.search(t, "in=messages&q=answer+s2"), "p1-s2 6 An answer about deploys, s2 [answer s2]")

	// What waits is found by its last text, and not at all once it is withdrawn.
	r.sessions.Full(true)
	r.call("POST", "/api/sessions/s1/messages", `{"text":"first apple","client_msg_id":"b"}`).want(t, 202)
	r.call("POST", "/api/sessions/s1/messages", `{"text":"second apple","client_msg_id":"c"}`).want(t, 202)
	r.call("PATCH", "/api/sessions/s1/messages/m2-s1", `{"text":"now a pear"}`).want(t, 200)
	r.call("DELETE", "/api/sessions/s1/messages/m3-s1", "").want(t, 200)
	wantFound(t, "the old text", r.search(t, "in=messages&q=apple"))
	if got := r.search(t, "in=messages&q=pear"); len(got) != 1 || !strings.HasPrefix(got[0], "m2-s1 ") || !strings.HasSuffix(got[0], " now a pear [pear]") {
		t.Errorf("the new text: %q", got)
	}
	r.sessions.Full(false)

	// Gone with the session.
	r.call("DELETE", "/api/sessions/s2", "").want(t, 204)
	wantFound(t, "an erased session", r.search(t, "in=messages&q="+url.QueryEscape("東京")))

	for _, bad := range []string{"in=messages", "in=messages&limit=5", "q=", "q=+!", "q=a&in=text", "q=" + strings.Repeat("a", 201), "q=" + strings.Repeat("a+", 17), "q=a&cursor=x", "q=a&in=messages&cursor=1.2.3"} {
		r.call("GET", "/api/sessions?"+bad, "").problem(t, 400, "bad_request")
	}
	for _, good := range []string{"q=" + strings.Repeat("a", 200), "q=" + strings.Repeat("a+", 16), "in=&q=a"} {
		r.call("GET", "/api/sessions?"+good, "").want(t, 200)
	}
	wantFound(t, "no q", r.search(t, "in=titles"), r.search(t, "")...)
}

// What is taken by default is searched to its end.
func TestAllOfAMessageIsSearched(t *testing.T) {
	if most := gateway.DefaultConfig().Limits.TextBytes; most > search.MostText {
		t.Errorf("a message of %d bytes is taken, and %d of it are searched", most, search.MostText)
	}
}

// Nobody finds what they may not read, by title or by message; nobody finds what a
// delegation was asked. PROTOCOL.md, rule 8.1b.
func TestSearchShowsOnlyWhatOneMayRead(t *testing.T) {
	r := start(t, func(_ *gateway.Config, d *gateway.Deps) { d.Authenticator = credentials{} })
	key := conversation.SessionKey{Tenant: acme, Session: "s1"}
	r.sessions.Play(func(w *machinetest.World) {
		w.Tell(key, conversation.Create{Owner: "ann"}, nil)
		w.Tell(key, conversation.Say{Author: "ann", ClientMsgID: "a", Text: "the secret word"}, nil)
		below := conversation.SessionKey{Tenant: acme, Session: "s1/d1"}
		w.Tell(below, conversation.Tell{Agent: "developer", Owner: "ann", Objective: "find the secret"}, nil)
	})
	for _, in := range []string{"titles", "messages"} {
		for _, p := range everybody {
			if !p.may("chat") {
				continue
			}
			want := 0
			if p.tenant == acme && p.user == "ann" {
				want = 1
			}
			if got := r.search(t, "q=secret&in="+in, "Authorization", "Bearer "+p.name); len(got) != want {
				t.Errorf("%s of the %s: %q", in, p.name, got)
			}
		}
	}
}

// Where messages are not searched that is said; titles always are.
func TestSearchTurnedOff(t *testing.T) {
	r := start(t, func(c *gateway.Config, _ *gateway.Deps) { c.Find.Words, c.Find.Messages = 3, false })
	r.sessions.Open("s1", "local")
	r.call("GET", "/api/sessions?q=a&in=messages", "").problem(t, 400, "bad_request")
	r.call("GET", "/api/sessions?q=a+b+c", "").want(t, 200)
	r.call("GET", "/api/sessions?q=a+b+c+d", "").problem(t, 400, "bad_request")
}
