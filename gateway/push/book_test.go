package push_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/conversation"
	"parley/gateway/push"
)

// Where may be sent to.
func TestAddresses(t *testing.T) {
	for _, c := range []struct {
		hosts   string
		private bool
		url     string
		want    string // part of the refusal; "" = it is taken
	}{
		{"agents.example", false, "https://agents.example/hook?x=1", ""},
		{"agents.example", false, "https://AGENTS.example.:8443/hook", ""},
		{"agents.example", false, "https://sub.agents.example/", "a host that"},
		{"agents.example", false, "https://agents.example.evil.example/", "a host that"},
		{"agents.example", false, "https://evil.example/agents.example", "a host that"},
		{"agents.example", false, "https://evil.example#@agents.example/", "fragment"},
		{"agents.example", false, "https://agents.example@evil.example/", "user or password"},
		{"agents.example", false, "http://agents.example/", "https"},
		{"agents.example", true, "http://agents.example/", ""},
		{"agents.example:8443", false, "https://agents.example:8443/", ""},
		{"agents.example:8443", false, "https://agents.example/", "a host that"},
		{"agents.example:443", false, "https://agents.example/", ""},
		{"*.example", false, "https://a.b.example/", ""},
		{"*.example", false, "https://example/", "a host that"},
		{"*.example", false, "https://badexample/", "a host that"},
		{"*.example:8443", false, "https://a.example:8443/", ""},
		{"*", false, "https://any.where/", ""},
		{"*", false, "ftp://any.where/", "must be an address"},
		{"*", false, "https:///path", "must be an address"},
		{"*", false, "any.where", "must be an address"},
		{"*", false, "https://a b/", "must be an address"},
		{"*", false, "", "url is missing"},
		{"*", false, "https://any.where/" + strings.Repeat("x", 2048), "at most 2048 bytes"},
		{"[::1]:9000", true, "http://[::1]:9000/", ""},
		{"agents.example.", false, "https://agents.example/", ""},
		{"agents.example.:8443", false, "https://agents.example.:8443/", ""},
		{"*.example.", false, "https://agents.example/", ""},
		{"*.agents.example", true, "http://[::1%25.agents.example]:9000/", "must be an address"},
		{"*.agents.example", true, "http://[2606:4700::1111%25.agents.example]/", "must be an address"},
		{"*", true, "http://[fe80::1%25lo]/", "must be an address"},
		{"*", false, "https://a>b.where/", "must be an address"},
		{"*", false, "https://a\x80b.where/", "must be an address"},
		{"*", false, "https://b\u00fccher.where/", ""},
		{"*", false, "https://any_one.whe-re/", ""},
		{"*", false, "https://any.where:65535/", ""},
		{"*", false, "https://any.where:65536/", "must be an address"},
		{"*", false, "https://any.where:0/", "must be an address"},
		{"*", false, "https://any.where:/", ""},
		{"10.1.2.3", true, "http://10.1.2.3:9000/", ""},
	} {
		r := newRig(t)
		r.rules.Hosts, r.rules.Private = []string{"other.example", c.hosts}, c.private
		if wrong := r.rules.Validate(); len(wrong) > 0 {
			t.Errorf("%s: %v", c.hosts, wrong)
		}
		err := r.pushes().Check(t.Context(), wants("t1-s", "a", func(reg *push.Registration) { reg.Target.URL = c.url }))
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || code(err) != conversation.BadRequest || strings.Contains(err.Error(), "evil")) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for _, bad := range []string{"", "https://a.example", "a.example/path", "a b", "*.*.example", "a*.example", "user@a.example", "*:80x", "a.example:port"} {
		rules := push.DefaultRules()
		rules.Hosts = []string{bad}
		if len(rules.Validate()) != 1 {
			t.Errorf("%q is a host", bad)
		}
	}
}

// FuzzAddresses: what is allowed is at the operator's host for package net/http too, which connects.
func FuzzAddresses(f *testing.F) {
	for _, url := range []string{
		"https://agents.example/hook", "https://a.agents.example:8443/", "https://AGENTS.EXAMPLE./", "https://agents.example@evil/", "https://evil\\@agents.example/",
		"https://evil%EF%BC%8F.agents.example/", "https://evil%2f.agents.example/", "https://[::1%25.agents.example]/", "https://[::1.agents.example]/", "https://agents.example:443:80/", "//agents.example/",
		"https:agents.example/", "https://agents.example?@evil/", "https://\u2024.agents.example/", "https://evil\u3002x.agents.example", "https://\u00df.agents.example",
	} {
		f.Add(url)
	}
	f.Fuzz(func(t *testing.T, url string) {
		rules := push.DefaultRules()
		rules.Hosts, rules.PerUser = []string{"agents.example", "*.agents.example"}, 0
		p := push.New(rules, false, push.Parts{})
		if p.Check(t.Context(), wants("t1-s", "a", func(reg *push.Registration) { reg.Target.URL = url })) != nil {
			return
		}
		to := ""
		transport := &http.Transport{DialContext: func(_ context.Context, _, address string) (net.Conn, error) {
			to = address
			return nil, errors.New("far enough")
		}}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, nil)
		if err != nil {
			return
		}
		if resp, err := transport.RoundTrip(req); err == nil {
			_ = resp.Body.Close()
			t.Errorf("%q has an answer", url)
		}
		host, _, err := net.SplitHostPort(to)
		if strings.Contains(host, ":") {
			t.Errorf("%q is allowed and connects to the address %q", url, to)
		}
		if host = strings.TrimSuffix(strings.ToLower(host), "."); to != "" && (err != nil || host != "agents.example" && !strings.HasSuffix(host, ".agents.example")) {
			t.Errorf("%q is allowed and connects to %q", url, to)
		}
	})
}

// Without hosts nothing is sent, and on a server that nobody else can reach to this machine.
func TestThisMachine(t *testing.T) {
	if push.New(push.DefaultRules(), false, push.Parts{}) != nil {
		t.Error("it sends somewhere")
	}
	r := newRig(t)
	rules := push.DefaultRules()
	p := push.New(rules, true, push.Parts{Store: r.store, Metrics: r.metrics})
	for url, want := range map[string]bool{
		"http://127.0.0.1:9000/hook": true, "http://localhost/": true, "https://[::1]:1/": true,
		"http://127.0.0.2/": false, "http://10.1.2.3/": false, "https://a.example/": false, "http://169.254.169.254/": false,
	} {
		err := p.Check(t.Context(), wants("t1-s", "a", func(reg *push.Registration) { reg.Target.URL = url }))
		if (err == nil) != want {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// What a client says is checked before anything is stored.
func TestWrongRegistrations(t *testing.T) {
	long := strings.Repeat("x", 4097)
	for _, c := range []struct {
		change func(reg *push.Registration)
		want   string
	}{
		{func(reg *push.Registration) { reg.ID = "a b" }, "id must be"},
		{func(reg *push.Registration) { reg.ID = "é" }, "id must be"},
		{func(reg *push.Registration) { reg.ID = long[:129] }, "id must be"},
		{func(reg *push.Registration) { reg.Target.Token = long }, "token must be"},
		{func(reg *push.Registration) { reg.Target.Token = "a\r\nX: y" }, "token must be"},
		{func(reg *push.Registration) { reg.Target.Token = " a" }, "token must be"},
		{func(reg *push.Registration) { reg.Target.Token = "whsec_short" }, "token is no secret"},
		{func(reg *push.Registration) { reg.Target.Scheme = "Bearer x" }, "authentication.scheme must be"},
		{func(reg *push.Registration) { reg.Target.Credentials = "x" }, "authentication.scheme is missing"},
		{func(reg *push.Registration) { reg.Target.Scheme, reg.Target.Credentials = "Bearer", "a\nb" }, "authentication.credentials must be"},
		{func(reg *push.Registration) { reg.Target.Scheme, reg.Target.Credentials = "Bearer", long }, "authentication.credentials must be"},
	} {
		r := newRig(t)
		p, reg := r.pushes(), wants("t1-s", "a", c.change)
		for _, err := range []error{p.Check(t.Context(), reg), p.Put(t.Context(), reg)} {
			if err == nil || !strings.Contains(err.Error(), c.want) || code(err) != conversation.BadRequest || strings.Contains(err.Error(), "short") {
				t.Errorf("%s: %v", c.want, err)
			}
		}
		if n := r.rows("default"); n != 0 {
			t.Errorf("%s: %d rows", c.want, n)
		}
	}
}

// Registrations are their user's alone; the same one again changes nothing.
func TestBook(t *testing.T) {
	r := newRig(t)
	p := r.pushes()
	full := wants("t1-s", "a", func(reg *push.Registration) {
		reg.Target.Token, reg.Target.Scheme, reg.Target.Credentials = "a token", "Basic", "dXNlcjpwYXNz"
	})
	r.put(p, full, wants("t1-s", "b"), wants("t2-s", "c"), wants("t1-s", "d", by("default", "bob")), wants("t1-s", "e", by("other", "ann")))
	for of, want := range map[*push.Registration]string{
		wants("t1-s", ""): "a b", wants("t2-s", ""): "c", wants("t3-s", ""): "", wants("t1-s", "", by("default", "bob")): "d", wants("t1-s", "", by("other", "ann")): "e",
	} {
		if got := r.names(p, of); got != want {
			t.Errorf("%s of %s: %s, want %s", of.Task, of.User.User, got, want)
		}
	}
	got, err := p.Get(t.Context(), &full.User, "t1-s", "a")
	if err != nil || got == nil || got.Target != full.Target || got.From != 7 || got.Context != "mine" || got.Address != full.Address || got.Session != "s" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := p.Get(t.Context(), &full.User, "t1-s", "d"); got != nil || err != nil {
		t.Errorf("another user's: %+v, %v", got, err)
	}
	for row, err := range r.store.Rows(t.Context(), "default", push.Channel) {
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{"a token", "dXNlcjpwYXNz", "/token"} {
			if strings.Contains(string(row.Value), secret) {
				t.Errorf("the row says %q", secret)
			}
		}
		if row.Session != "s" || row.Revision != 1 {
			t.Errorf("%+v", row.Key)
		}
	}
	again := wants("t1-s", "a", func(reg *push.Registration) { reg.Target, reg.From = full.Target, 99 })
	r.put(p, again)
	if got, err := p.Get(t.Context(), &full.User, "t1-s", "a"); err != nil || got.From != 7 {
		t.Errorf("the same again: %+v, %v", got, err)
	}
	again.User.Credential = "key:2"
	r.put(p, again)
	if got, err := p.Get(t.Context(), &full.User, "t1-s", "a"); err != nil || got.From != 7 || got.User.Credential != "key:2" {
		t.Errorf("by another key: %+v, %v", got, err)
	}
	again.Target.URL = "https://new.example/"
	r.put(p, again)
	if got, err := p.Get(t.Context(), &full.User, "t1-s", "a"); err != nil || got.From != 99 || got.Target.URL != "https://new.example/" {
		t.Errorf("another address: %+v, %v", got, err)
	}
	r.store.Fail(errors.New("the store is away"))
	if err := p.Put(t.Context(), wants("t9-s", "z")); err == nil {
		t.Error("a failed write is silent")
	}
}

// What is left of a registration that was deleted is no secret, is not shown, and is forgotten.
func TestWhatIsLeftOfTheDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.rules.PerUser = 2
		p := r.pushes()
		defer r.run(p)()
		for _, name := range []string{"a", "b", "c", "d"} {
			reg := wants("t1-s", name)
			r.put(p, reg)
			if err := p.Delete(t.Context(), &reg.User, "t1-s", name); err != nil {
				t.Fatal(err)
			}
			if got, err := p.Get(t.Context(), &reg.User, "t1-s", name); got != nil || err != nil || r.names(p, reg) != "" {
				t.Errorf("%s is shown: %+v, %v", name, got, err)
			}
		}
		for row, err := range r.store.Rows(t.Context(), "default", push.Channel) {
			if err != nil || !strings.Contains(string(row.Value), `"target":""`) {
				t.Errorf("%s, %v", row.Value, err)
			}
		}
		if n := r.rows("default"); n != 3 { // the last one, and as many as a user may have
			t.Errorf("%d rows", n)
		}
		time.Sleep(25 * time.Hour) // on the test's clock
		synctest.Wait()
		if n := r.rows("default"); n != 0 {
			t.Errorf("%d rows are left a day later", n)
		}
	})
}

// A user may have so many that have not ended; those that have are forgotten beyond that.
func TestPushesPerUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.rules.PerUser = 2
		p := r.pushes()
		defer r.run(p)()
		r.put(p, wants("t1-s", "a"), wants("t2-s", "a"))
		for _, err := range []error{p.Check(t.Context(), wants("t3-s", "a")), p.Put(t.Context(), wants("t3-s", "a"))} {
			if code(err) != conversation.RateLimited {
				t.Errorf("one more: %v", err)
			}
		}
		r.put(p, wants("t1-s", "a"), wants("t3-s", "a", by("default", "bob")), wants("t3-s", "a", by("other", "ann"))) // the same, and other users
		for i, task := range []conversation.TaskID{"t1-s", "t2-s", "t3-s", "t4-s", "t5-s"} {
			r.put(p, wants(task, "a"))
			r.happens(task, "end")
			time.Sleep(time.Second)
			synctest.Wait()
			if i > 0 {
				continue
			}
			if err := p.Check(t.Context(), wants("t3-s", "a")); err != nil {
				t.Errorf("one has ended: %v", err)
			}
		}
		if n := r.rows("default"); n != 4 { // ann's last two and the one before, and bob's
			t.Errorf("%d rows", n)
		}
		r.rules.PerUser = 0
		for range 5 {
			r.put(r.pushes(), wants("t6-s", "a"), wants("t7-s", "a"), wants("t8-s", "a"))
		}
	})
}
