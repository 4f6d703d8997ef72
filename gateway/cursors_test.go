package gateway_test

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"parley/conversation"
	"parley/conversation/machine/machinetest"
	"parley/gateway"
)

// A page that ends at, or behind, what its reader may not see says nothing of it in its cursor:
// neither an id nor a time. All pages together have each item once.
// PROTOCOL.md, rules 7.5, 8.1b and 9.3.
func TestCursorsTellNothingOfOthers(t *testing.T) {
	r := start(t, withAuth(credentials{}), func(c *gateway.Config, _ *gateway.Deps) { c.Find.Sessions = 2 })
	as := []string{"Authorization", "Bearer stranger"}
	var secrets []string
	r.sessions.Play(func(w *machinetest.World) {
		for i := range 12 {
			key, owner := conversation.SessionKey{Tenant: acme, Session: conversation.SessionID(fmt.Sprint("hidden", i))}, conversation.UserID("ann")
			if i%4 == 0 {
				key.Session, owner = conversation.SessionID(fmt.Sprint("own", i)), "str"
			}
			w.Do(key, conversation.Create{Owner: owner, Agent: conversation.External})
			w.Do(key, conversation.Say{Author: owner, Via: conversation.ViaHTTP, ClientMsgID: "a", Text: "a word"})
		}
	})
	for row, err := range r.sessions.Sessions(t.Context(), conversation.Page{Tenant: acme}) {
		if err != nil {
			t.Fatal(err)
		}
		if row.Owner == "ann" {
			secrets = append(secrets, string(row.Key.Session), strconv.FormatInt(row.Activity.UnixMilli(), 10))
		}
	}
	for _, list := range []string{"/api/sessions?limit=1", "/api/tasks?limit=1", "/api/sessions?in=messages&q=word&limit=1", "/api/sessions?q=word&limit=1"} {
		var found []string
		lengths := map[int]bool{}
		cursor := ""
		for pages := 1; ; pages++ {
			a := r.call("GET", list+"&cursor="+url.QueryEscape(cursor), "", as...).want(t, 200)
			for i := range 12 {
				if own := fmt.Sprint("own", i); strings.Contains(a.get(t, "items"), `"session":"`+own+`"`) {
					found = append(found, own)
				}
			}
			if cursor = a.get(t, "next_cursor"); cursor == "" {
				break
			}
			lengths[len(cursor)] = true
			plain, _ := base64.RawURLEncoding.DecodeString(cursor)
			if i := slices.IndexFunc(secrets, func(s string) bool { return strings.Contains(cursor, s) || strings.Contains(string(plain), s) }); i >= 0 {
				t.Errorf("%s: the cursor %q says %s", list, cursor, secrets[i])
			}
			if pages > 20 {
				t.Fatalf("%s has no end", list)
			}
			for path, of := range map[string][]string{list: {"Authorization", "Bearer owner"}, "/api/tasks?status=QUEUED&limit=1": as} {
				if path != list && strings.HasPrefix(list, "/api/tasks") {
					path = "/api/sessions?limit=1"
				}
				r.call("GET", path+"&cursor="+url.QueryEscape(cursor), "", of...).problem(t, 400, "bad_request")
			}
		}
		if got := strings.Join(found, " "); got != "own8 own4 own0" {
			t.Errorf("%s: found %s", list, got)
		}
		if len(lengths) != 1 {
			t.Errorf("%s: the lengths of cursors differ: %v", list, lengths)
		}
	}
}

// A cursor is good at every server that has the secret, as after a restart and at another node,
// and at no other one.
func TestCursorsOfOtherServers(t *testing.T) {
	with := func(secret string) *rig {
		r := start(t, func(_ *gateway.Config, d *gateway.Deps) { d.Secret = []byte(secret) })
		for _, s := range []string{"s1", "s2"} {
			r.sessions.Open(s, "local")
		}
		return r
	}
	cursor := with("one").call("GET", "/api/sessions?limit=1", "").want(t, 200).get(t, "next_cursor")
	again := with("one").call("GET", "/api/sessions?limit=1&cursor="+cursor, "").want(t, 200)
	if again.get(t, "next_cursor") != "" || !strings.Contains(again.get(t, "items"), `"s1"`) {
		t.Errorf("%s", again.body)
	}
	with("two").call("GET", "/api/sessions?limit=1&cursor="+cursor, "").problem(t, 400, "bad_request")
}
