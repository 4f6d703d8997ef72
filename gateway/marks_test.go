package gateway_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"parley/gateway"
)

// What a user has marked is that user's own, and lists leave archived sessions out unless they
// are asked for: pages are full all the same. PROTOCOL.md, rule 8.1c.
func TestMarks(t *testing.T) {
	a := &passes{}
	a.put("ann", 0, gateway.ScopeChat)
	a.byToken["bob"] = gateway.Principal{Tenant: "default", User: "bob", Scopes: []string{gateway.ScopeChat}, Credential: "bob"}
	r := start(t, withAuth(a))
	ids := make([]string, 9)
	for i := range ids {
		body := fmt.Sprintf(`{"title":"number %d","access":"tenant"}`, i)
		ids[i] = r.call("POST", "/api/sessions", body, "Authorization", "Bearer ann").want(t, 201).get(t, "session")
	}
	path := func(i int) string { return "/api/sessions/" + ids[i] }
	// listed is what a list shows, page by page: each page is full but the last.
	listed := func(who, query string) string {
		t.Helper()
		have, cursor := map[string]string{}, ""
		for {
			var page struct {
				Items []struct {
					Session          string
					Pinned, Archived bool
				}
				Next *string `json:"next_cursor"`
			}
			answer := r.call("GET", "/api/sessions?limit=2&cursor="+cursor+query, "", "Authorization", "Bearer "+who).want(t, 200)
			if err := json.Unmarshal(answer.body, &page); err != nil {
				t.Fatal(err)
			}
			for _, it := range page.Items {
				have[it.Session] = strings.Repeat("p", map[bool]int{true: 1}[it.Pinned]) + strings.Repeat("a", map[bool]int{true: 1}[it.Archived])
			}
			if page.Next == nil {
				break
			}
			if len(page.Items) != 2 {
				t.Errorf("a page of %d items with a cursor", len(page.Items))
			}
			cursor = *page.Next
		}
		var out []string
		for i, id := range ids {
			if marks, is := have[id]; is {
				out = append(out, fmt.Sprint(i, marks))
			}
		}
		return strings.Join(out, " ")
	}
	for range 2 { // the same again changes nothing
		for i := range 5 {
			got := r.call("PATCH", path(2*i), `{"archived":true}`, "Authorization", "Bearer bob").want(t, 200)
			if got.get(t, "archived") != "true" || got.get(t, "pinned") != "false" || got.get(t, "head") != "1" {
				t.Errorf("%s", got.body)
			}
		}
	}
	r.call("PATCH", path(8), `{"archived":false,"pinned":true}`, "Authorization", "Bearer bob").want(t, 200)
	r.call("PATCH", path(8), `{"pinned":null,"title":"number 88"}`, "Authorization", "Bearer ann").want(t, 200)
	for _, x := range []struct{ who, query, want string }{
		{"bob", "", "1 3 5 7 8p"},
		{"bob", "&archived=", "1 3 5 7 8p"},
		{"bob", "&archived=only", "0a 2a 4a 6a"},
		{"bob", "&archived=all", "0a 1 2a 3 4a 5 6a 7 8p"},
		{"bob", "&archived=all&q=number+8", "8p"},
		{"bob", "&archived=only&q=number", "0a 2a 4a 6a"},
		{"bob", "&q=number", "1 3 5 7 8p"},
		{"ann", "", "0 1 2 3 4 5 6 7 8"},
		{"ann", "&archived=only", ""},
	} {
		if got := listed(x.who, x.query); got != x.want {
			t.Errorf("%s%s: %s, want %s", x.who, x.query, got, x.want)
		}
	}
	// What happens in it brings nothing back.
	r.call("POST", path(0)+"/messages", `{"text":"Hello"}`, "Authorization", "Bearer ann").want(t, 202)
	r.call("PATCH", path(0), `{"closed":true}`, "Authorization", "Bearer ann").want(t, 200)
	if got := r.call("GET", path(0), "", "Authorization", "Bearer bob").want(t, 200); got.get(t, "archived") != "true" {
		t.Errorf("with new activity: %s", got.body)
	}
	r.call("PATCH", path(0), `{"archived":false}`, "Authorization", "Bearer bob").want(t, 200)
	// What is refused marks nothing.
	r.call("PATCH", path(1), `{"pinned":true,"access":"private"}`, "Authorization", "Bearer bob").problem(t, 403, "forbidden")
	if got := r.call("GET", path(1), "", "Authorization", "Bearer bob").want(t, 200); got.get(t, "pinned") != "false" {
		t.Errorf("refused: %s", got.body)
	}
	for _, bad := range []string{`{"pinned":1}`, `{"archived":"yes"}`, `{"pinned":null}`} {
		r.call("PATCH", path(1), bad, "Authorization", "Bearer bob").problem(t, 400, "bad_request")
	}
	for _, bad := range []string{"none", "true", "ONLY"} {
		r.call("GET", "/api/sessions?archived="+bad, "", "Authorization", "Bearer bob").problem(t, 400, "bad_request")
	}
}
