package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	parley "parley/clients/go"
)

// Lists, searches, marks, agents and files under rights: whoever may not read a session
// learns nothing of it by any route, not even whether it is there, and changes nothing.
func TestNobodyElseLearnsOfASession(t *testing.T) {
	secret := strings.Repeat("s", 40)
	l := start(t, t.TempDir(), "--set", "auth.mode=jwt", "--set", "auth.tenant=acme", "--set", "auth.hs256_secret="+secret)
	defer l.stop()
	token := func(user, tenant string, scope ...string) string {
		claims := jwt.MapClaims{"sub": user, "tenant": tenant, "exp": time.Now().Add(time.Hour).Unix()}
		if len(scope) > 0 {
			claims["scope"] = strings.Join(scope, " ")
		}
		signed, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(secret))
		if err != nil {
			t.Fatal(err)
		}
		return signed
	}
	ask := func(token, method, path, kind, body string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+l.addr+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		if kind != "" {
			r.Header.Set("Content-Type", kind)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		got, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(got)
	}
	const object = "application/json"
	ann := token("ann", "acme")
	must := func(method, path, kind, body string, into any) {
		t.Helper()
		status, got := ask(ann, method, path, kind, body)
		if status/100 != 2 || into != nil && json.Unmarshal([]byte(got), into) != nil {
			t.Fatalf("%s %s: %d %s", method, path, status, got)
		}
	}
	var made struct{ Session, Hash string }
	must("POST", "/api/sessions", object, `{"title":"hidden title"}`, &made)
	own := "/api/sessions/" + made.Session
	must("POST", own+"/blobs?name=hidden.txt", "text/plain", "hidden file", &made)
	must("POST", own+"/messages?wait=10s", object, `{"text":"/say hidden words","attachments":[{"hash":"`+made.Hash+`"}]}`, nil)
	must("PATCH", own, object, `{"archived":true,"pinned":true}`, nil)

	others := map[string]string{
		"another user": token("bob", "acme"), "another tenant": token("ann", "zeus"), "the same user for runtimes only": token("ann", "acme", "runtime"),
		"the same user for tools only": token("ann", "acme", "read:tools"), "the same user for chats only": token("ann", "acme", "chats"),
		"an administrator of another tenant": token("ann", "zeus", "admin", "chat"),
	}
	for who, token := range others {
		for _, route := range []struct{ method, path, kind, body string }{
			{"GET", "/api/sessions", "", ""}, {"GET", "/api/sessions?archived=all", "", ""}, {"GET", "/api/sessions?archived=only", "", ""},
			{"GET", "/api/sessions?q=hidden", "", ""}, {"GET", "/api/sessions?q=hidden&archived=all", "", ""},
			{"GET", "/api/sessions?q=hidden&in=messages", "", ""}, {"GET", "/api/sessions?q=hidden&in=messages&archived=all", "", ""},
			{"GET", own, "", ""}, {"GET", own + "/events", "", ""}, {"GET", own + "/messages", "", ""},
			{"GET", "/api/blobs/" + made.Hash, "", ""}, {"GET", "/api/blobs/" + made.Hash + "?session=" + made.Session, "", ""},
			{"POST", own + "/blobs?name=x.txt", "text/plain", "hidden file"}, {"POST", own + "/blobs?name=x.txt", "text/plain", "another"},
			{"PATCH", own, object, `{"pinned":false}`}, {"PATCH", own, object, `{"archived":false}`}, {"PATCH", own, object, `{"title":"mine"}`},
			{"PATCH", own, object, `{"agent":"developer"}`}, {"DELETE", own, "", ""}, {"POST", own + "/messages", object, `{"text":"x"}`},
		} {
			status, got := ask(token, route.method, route.path, route.kind, route.body)
			empty := status == http.StatusOK && route.method == "GET" && strings.Contains(got, `"items":[]`)
			if !empty && status != http.StatusNotFound && status != http.StatusForbidden {
				t.Errorf("%s: %s %s: %d %s", who, route.method, route.path, status, got)
			}
			for _, word := range []string{"hidden title", "hidden words", "hidden file", "hidden.txt", `"session":"` + made.Session} {
				if strings.Contains(got, word) {
					t.Errorf("%s: %s %s tells %q: %s", who, route.method, route.path, word, got)
				}
			}
		}
		// What is there is refused as what is not.
		_, there := ask(token, "GET", "/api/blobs/"+made.Hash, "", "")
		_, nowhere := ask(token, "GET", fmt.Sprintf("/api/blobs/%064d", 0), "", "")
		if without(there) != without(nowhere) {
			t.Errorf("%s: a file that is there is refused with %s, another with %s", who, there, nowhere)
		}
	}

	if _, got := ask(ann, "GET", "/api/sessions?archived=only", "", ""); !strings.Contains(got, `"title":"hidden title"`) || !strings.Contains(got, `"pinned":true`) || !strings.Contains(got, `"agent":"coordinator"`) {
		t.Errorf("the session is not as its owner left it: %s", got)
	}

	// A file of another user cannot be named in a session of one's own, though its hash is known.
	bob := token("bob", "acme")
	var his struct{ Session string }
	_, body := ask(bob, "POST", "/api/sessions", object, "{}")
	if err := json.Unmarshal([]byte(body), &his); err != nil || his.Session == "" {
		t.Fatal(body, err)
	}
	if status, got := ask(bob, "POST", "/api/sessions/"+his.Session+"/messages", object, `{"text":"x","attachments":[{"hash":"`+made.Hash+`"}]}`); status != http.StatusNotFound {
		t.Errorf("another user's file is named: %d %s", status, got)
	}

	// Whoever watches is told of his own list only.
	watching, enough := context.WithCancel(t.Context())
	defer enough()
	told := make(chan string, 100)
	for who, token := range others {
		c, err := parley.Dial(t.Context(), "http://"+l.addr, parley.Options{Token: func(context.Context) (string, error) { return token, nil }})
		if err != nil {
			continue // it may not even connect
		}
		defer c.Close()
		go func() { // ends with the client
			for row, err := range c.Watch(watching) {
				if err == nil && row != nil {
					told <- who + " " + row.Session + " " + row.Title
				} else if err == nil {
					told <- who + " watches"
				}
			}
		}()
	}
	wait := func(want string) {
		t.Helper()
		for {
			select {
			case got := <-told:
				if strings.Contains(got, made.Session) || strings.Contains(got, "hidden") {
					t.Errorf("told %s", got)
				}
				if strings.Contains(got, want) {
					return
				}
			case <-time.After(patience):
				t.Fatalf("%q is not told", want)
			}
		}
	}
	wait("another user watches")
	must("PATCH", own, object, `{"title":"hidden title 2","archived":false}`, nil)
	must("DELETE", own, "", "", nil)
	if status, got := ask(bob, "PATCH", "/api/sessions/"+his.Session, object, `{"title":"his own"}`); status/100 != 2 {
		t.Fatal(status, got)
	}
	wait("another user " + his.Session + " his own")
}

// without is a problem without what differs each time.
func without(problem string) string {
	var p map[string]any
	if json.Unmarshal([]byte(problem), &p) != nil {
		return problem
	}
	delete(p, "request_id")
	delete(p, "instance")
	b, _ := json.Marshal(p)
	return string(b)
}
