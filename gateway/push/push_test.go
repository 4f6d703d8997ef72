package push_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/conversation"
	"parley/gateway/outbound"
	"parley/gateway/push"
)

// N-16: what happens to a task is sent in order, with what its client has asked for, and ends with
// the task.
func TestTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		p := r.pushes()
		defer r.run(p)()
		r.happens("t1-s", "one")
		r.put(p, wants("t1-s", "a", func(reg *push.Registration) {
			reg.Target.Token, reg.Target.Scheme, reg.Target.Credentials = "tok", "Bearer", "cred"
		}))
		synctest.Wait()
		if got := r.bodies("a.example"); got != "one" {
			t.Errorf("at once: %s", got)
		}
		r.happens("t1-s", "two", "three", "end")
		synctest.Wait()
		if got := r.bodies("a.example"); got != "one two three end" {
			t.Errorf("all: %s", got)
		}
		for i, x := range r.seen("a.example") {
			h := x.header
			if want := fmt.Sprintf("t1-s:a:49915e0d:%d", 10*(i+1)); x.id != want || h.Get("Content-Type") != "application/test" || h.Get("Authorization") != "Bearer cred" ||
				h.Get(push.TokenHeader) != "tok" || h.Get("webhook-signature") != "" || h.Get("webhook-timestamp") == "" {
				t.Errorf("%s: %v", x.id, h)
			}
		}
		if got := r.counted(); got != "ended_total:task_ended=1 sent_total=4" {
			t.Error(got)
		}
		if got := r.names(p, wants("t1-s", "a")); got != "a" {
			t.Errorf("it cannot be asked for any more: %q", got)
		}
		time.Sleep(25 * time.Hour) // on the test's clock
		synctest.Wait()
		if n := r.rows("default"); n != 0 {
			t.Errorf("%d rows are left a day later", n)
		}
	})
}

// A token that is a secret of Standard Webhooks signs, and is not sent.
func TestSigns(t *testing.T) {
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		p := r.pushes()
		defer r.run(p)()
		r.put(p, wants("t1-s", "a", func(reg *push.Registration) { reg.Target.Token = secret }))
		r.happens("t1-s", "one")
		synctest.Wait()
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range r.seen("a.example") {
			mac := hmac.New(sha256.New, key)
			mac.Write([]byte(x.id + "." + x.header.Get("webhook-timestamp") + "." + x.body))
			if got := x.header.Get("webhook-signature"); got != "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)) {
				t.Errorf("the signature is %q", got)
			}
			if x.header.Get(push.TokenHeader) != "" || strings.Contains(fmt.Sprint(x.header), "MfKQ9r8") {
				t.Errorf("the secret is sent: %v", x.header)
			}
		}
		if len(r.seen("a.example")) != 1 {
			t.Error("nothing was sent")
		}
	})
}

// A node that goes on where another one has ended sends what was not taken, in order: what was
// sent and not noted comes again, under the same id.
func TestGoesOnAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		p := r.pushes()
		stop := r.run(p)
		r.put(p, wants("t1-s", "a"))
		r.happens("t1-s", "one", "two")
		synctest.Wait()
		r.answer("a.example", func(n int) (*http.Response, error) {
			if n == 3 { // taken, and then the node cannot note it
				r.store.Fail(errors.New("the store is away"))
			}
			return status(200), nil
		})
		r.happens("t1-s", "three")
		synctest.Wait()
		stop()
		r.store.Fail(nil)
		r.happens("t1-s", "four", "end")
		next := r.pushes() // of another process
		defer r.run(next)()
		synctest.Wait()
		var ids []string
		for _, x := range r.seen("a.example") {
			number, ours := strings.CutPrefix(x.id, "t1-s:a:49915e0d:")
			if ours {
				ids = append(ids, number)
			}
		}
		if got, want := strings.Join(ids, " "), "10 20 30 30 40 50"; got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
		if got := r.bodies("a.example"); got != "one two three four end" {
			t.Error(got)
		}
	})
}

// What is not taken is tried again, ever less often; a receiver may say when.
func TestTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		p := r.pushes()
		defer r.run(p)()
		r.put(p, wants("t1-s", "a"), wants("t1-s", "b"))
		r.answer("a.example", func(n int) (*http.Response, error) {
			switch {
			case n == 1:
				return nil, errors.New("no route to a host at https://a.example/token")
			case n < 4:
				return status(503), nil
			case n == 4:
				return status(429, "Retry-After", "3600"), nil
			}
			return status(204), nil
		})
		r.happens("t1-s", "one", "end")
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := r.bodies("b.example"); got != "one end" {
			t.Errorf("a slow one delays another: %s", got)
		}
		if n := len(r.seen("a.example")); n != 4 {
			t.Errorf("%d tries in a minute", n)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		all := r.seen("a.example")
		if got := r.bodies("a.example"); got != "one end" || len(all) != 6 {
			t.Errorf("%d requests: %s", len(all), got)
		}
		for i := 1; i < 3; i++ {
			first, next := all[i].at.Sub(all[i-1].at), all[i+1].at.Sub(all[i].at)
			if first < 400*time.Millisecond || next < first/2 {
				t.Errorf("pauses %v, %v", first, next)
			}
		}
		if got := r.counted(); got != "ended_total:task_ended=2 failed_total:connection=1 failed_total:rate_limited=1 failed_total:server_error=2 retries_total=4 sent_total=4" {
			t.Error(got)
		}
	})
}

// What is too old is skipped, and the rest is sent when the receiver is back.
func TestGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.rules.GiveUp = time.Hour
		p := r.pushes()
		stop := r.run(p)
		away := true
		r.answer("a.example", func(int) (*http.Response, error) {
			if away {
				return status(500), nil
			}
			return status(200), nil
		})
		r.put(p, wants("t1-s", "a"))
		r.happens("t1-s", "one", "two")
		time.Sleep(90 * time.Minute)
		r.happens("t1-s", "three", "end")
		time.Sleep(time.Minute)
		synctest.Wait()
		r.mu.Lock()
		away = false
		r.got["a.example"] = nil
		r.mu.Unlock()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if got := r.bodies("a.example"); got != "three end" {
			t.Error(got)
		}
		stop()
		if got := r.counted(); !strings.Contains(got, "sent_total=2 skipped_total=2") {
			t.Error(got)
		}
		if log := r.log.String(); !strings.Contains(log, "too old") || strings.Contains(log, "/token") {
			t.Errorf("the log says %s", log)
		}
	})
}

// A registration ends when its receiver is gone, when its address leads where nothing may be sent,
// and when the task cannot be seen any more, also while it is tried again.
func TestEnds(t *testing.T) {
	for why, does := range map[string]func(r *rig){
		"gone": func(r *rig) { r.answer("a.example", func(int) (*http.Response, error) { return status(410), nil }) },
		"private_address": func(r *rig) {
			r.answer("a.example", func(int) (*http.Response, error) { return nil, outbound.ErrPrivate })
		},
		"no_access": func(r *rig) {
			r.answer("a.example", func(int) (*http.Response, error) { return status(500), nil })
			time.Sleep(time.Second)
			r.change("t1-s", func(h *happening) { h.hidden = true })
		},
	} {
		t.Run(why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				p := r.pushes()
				defer r.run(p)()
				r.put(p, wants("t1-s", "a"))
				does(r)
				r.happens("t1-s", "one", "two")
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				n := len(r.seen("a.example"))
				r.happens("t1-s", "three")
				time.Sleep(time.Hour)
				synctest.Wait()
				if after := len(r.seen("a.example")); after != n || n > 12 {
					t.Errorf("%d requests, then %d", n, after)
				}
				if got := r.counted(); !strings.Contains(got, "ended_total:"+why+"=1") || strings.Contains(got, "open") {
					t.Error(got)
				}
			})
		})
	}
}

// What is deleted, replaced or erased is sent nothing more, also while it is tried again.
func TestDelete(t *testing.T) {
	for name, does := range map[string]func(t *testing.T, r *rig, p *push.Pushes){
		"deleted": func(t *testing.T, _ *rig, p *push.Pushes) {
			for range 2 {
				if err := p.Delete(t.Context(), &wants("t1-s", "a").User, "t1-s", "a"); err != nil {
					t.Error(err)
				}
			}
		},
		"erased": func(_ *testing.T, r *rig, _ *push.Pushes) {
			r.store.Erase(conversation.SessionKey{Tenant: "default", Session: "s"})
		},
		"replaced": func(_ *testing.T, r *rig, p *push.Pushes) {
			r.put(p, wants("t1-s", "a", func(reg *push.Registration) { reg.Target.URL = "https://other.example/" }))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				p := r.pushes()
				defer r.run(p)()
				r.answer("a.example", func(n int) (*http.Response, error) { return status(map[bool]int{true: 200, false: 500}[n == 1]), nil })
				r.put(p, wants("t1-s", "a"))
				r.happens("t1-s", "one", "two")
				time.Sleep(5 * time.Second)
				does(t, r, p)
				synctest.Wait()
				n := len(r.seen("a.example"))
				r.happens("t1-s", "three", "end")
				time.Sleep(time.Hour)
				synctest.Wait()
				if after := len(r.seen("a.example")); after != n {
					t.Errorf("%d requests, then %d", n, after)
				}
				if got, want := r.bodies("other.example"), map[bool]string{true: "one two three end"}[name == "replaced"]; got != want {
					t.Errorf("another address was sent %q", got)
				}
			})
		})
	}
}

// A registration that is deleted and made again while a notice of the first one is on its way is
// the new one, and stays it.
func TestMadeAgainWhileItIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		p := r.pushes()
		elsewhere := r.pushes() // of a node where nothing runs
		elsewhere.Wake = func([]byte) {}
		defer r.run(p)()
		r.answer("a.example", func(int) (*http.Response, error) {
			reg := wants("t1-s", "a", func(reg *push.Registration) { reg.Target.URL = "https://other.example/" })
			if err := elsewhere.Delete(t.Context(), &reg.User, "t1-s", "a"); err != nil {
				t.Error(err)
			}
			r.put(elsewhere, reg)
			return status(200), nil
		})
		r.put(p, wants("t1-s", "a"))
		r.happens("t1-s", "one", "two", "end")
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := r.bodies("a.example"); got != "one" {
			t.Errorf("the first address was sent %s", got)
		}
		if got := r.bodies("other.example"); got != "one two end" {
			t.Errorf("the second address was sent %q", got)
		}
	})
}

// One that waits for something to happen ends as well when it is deleted.
func TestDeleteOfOneThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		p := r.pushes()
		defer r.run(p)()
		r.put(p, wants("t1-s", "a"), wants("t1-s", "b"))
		synctest.Wait()
		if got := r.counted(); got != "open=2" {
			t.Error(got)
		}
		if err := p.Delete(t.Context(), &wants("t1-s", "a").User, "t1-s", "a"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := r.counted(); got != "open=1" {
			t.Errorf("by a word: %s", got)
		}
		r.store.Erase(conversation.SessionKey{Tenant: "default", Session: "s"})
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if got := r.counted(); got != "" {
			t.Errorf("by a look: %s", got)
		}
	})
}

// Registrations of all tenants are found, also those that nobody has said a word of; two that run
// at once make nothing worse than a notice that comes twice; and what crashes ends nobody else.
func TestRunsAnywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		elsewhere := r.pushes() // of a node where nothing runs
		r.put(elsewhere, wants("t1-s", "a"), wants("t1-o", "b", by("other", "eve")), wants("t1-c", "c"))
		r.change("t1-c", func(h *happening) { h.crashes = true })
		stop, stopOther := r.run(r.pushes()), r.run(r.pushes())
		synctest.Wait()
		for i := range 20 {
			r.happens("t1-s", fmt.Sprint("s", i))
			r.happens("t1-o", fmt.Sprint("o", i))
			time.Sleep(3 * time.Second)
		}
		r.put(elsewhere, wants("t2-s", "d"))
		r.happens("t2-s", "late", "end")
		r.happens("t1-s", "end")
		r.happens("t1-o", "end")
		time.Sleep(time.Minute)
		synctest.Wait()
		stop()
		stopOther()
		for host, letter := range map[string]string{"a.example": "s", "b.example": "o"} {
			next, ids := 0, map[string]bool{}
			for _, x := range r.seen(host) {
				ids[x.id] = true
				if x.body == fmt.Sprint(letter, next) {
					next++
				}
			}
			if next != 20 || len(ids) != 21 {
				t.Errorf("%s: %d in order, %d different", host, next, len(ids))
			}
		}
		var first []string // of those that come twice, the one that came first
		seen := map[string]bool{}
		for _, x := range r.seen("d.example") {
			if !seen[x.id] {
				first = append(first, x.body)
			}
			seen[x.id] = true
		}
		if got := strings.Join(first, " "); got != "late end" {
			t.Errorf("registered elsewhere: %s", got)
		}
		if log := r.log.String(); !strings.Contains(log, "crashed") {
			t.Error("the crash is not in the log")
		}
	})
}

// A store whose secret is another one, as after a move, has nothing that can be sent.
func TestUnreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.put(r.pushes(), wants("t1-s", "a"))
		r.happens("t1-s", "one")
		r.secret = []byte("another secret")
		p := r.pushes()
		defer r.run(p)()
		synctest.Wait()
		if got := r.counted(); got != "ended_total:unreadable=1" || r.bodies("a.example") != "" {
			t.Error(got)
		}
		if got := r.names(p, wants("t1-s", "a")); got != "" {
			t.Errorf("it is shown: %s", got)
		}
		r.put(p, wants("t1-s", "a")) // the client says it again
		synctest.Wait()
		if got := r.bodies("a.example"); got != "one" {
			t.Errorf("said again: %s", got)
		}
	})
}

// A host that the operator has taken away is sent nothing more, also of what was registered before.
func TestHostTakenAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.put(r.pushes(), wants("t1-s", "a"))
		r.happens("t1-s", "one")
		r.rules.Hosts = []string{"b.example"}
		p := r.pushes()
		defer r.run(p)()
		synctest.Wait()
		if got := r.bodies("a.example"); got != "" || r.counted() != "ended_total:not_allowed=1" {
			t.Errorf("sent %q, %s", got, r.counted())
		}
	})
}

// A message that is said again brings no registration again: not one that has ended, whose notices
// would all come once more, and not one that its client has deleted since.
func TestSaidAgain(t *testing.T) {
	said := func(reg *push.Registration) { reg.Said = "a2a:u1" }
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.rules.PerUser = 1
		p := r.pushes()
		defer r.run(p)()
		again := func(want string) {
			t.Helper()
			reg := wants("t1-s", "a", said)
			if err := p.Check(t.Context(), reg); err != nil {
				t.Error(err)
			}
			r.put(p, reg)
			time.Sleep(time.Minute)
			synctest.Wait()
			if got := r.bodies("a.example"); got != want {
				t.Errorf("sent %s, want %s", got, want)
			}
		}
		r.happens("t1-s", "one", "end")
		again("one end")
		r.put(p, wants("t2-s", "b")) // no other one has room
		again("one end")
		if err := p.Delete(t.Context(), &wants("t1-s", "a").User, "t1-s", "a"); err != nil {
			t.Fatal(err)
		}
		again("one end")
		if err := p.Delete(t.Context(), &wants("t2-s", "b").User, "t2-s", "b"); err != nil {
			t.Fatal(err)
		}
		r.put(p, wants("t1-s", "a")) // not by the message
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := r.bodies("a.example"); got != "one end one end" {
			t.Errorf("asked for again: %s", got)
		}
	})
}

// A task whose notices cannot be read for a moment goes on soon, however often that has been so.
func TestReadsAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		p := r.pushes()
		defer r.run(p)()
		r.change("t1-s", func(h *happening) { h.fails = true })
		r.put(p, wants("t1-s", "a"))
		for i := range 20 {
			r.happens("t1-s", fmt.Sprint("n", i))
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if all := r.seen("a.example"); len(all) != i+1 {
				t.Fatalf("%d were sent after %d", len(all), i+1)
			}
		}
	})
}

// A key that has just been made may not be known yet where notices are sent: it gets time to come
// there, and no more.
func TestKeyThatIsNotKnownYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		p := r.pushes()
		defer r.run(p)()
		keyless := func(is bool) { r.change("t1-s", func(h *happening) { h.keyless = is }) }
		keyless(true)
		r.put(p, wants("t1-s", "a"))
		r.happens("t1-s", "one")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := r.bodies("a.example"); got != "" {
			t.Errorf("by a key that is not known: %s", got)
		}
		keyless(false)
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if got := r.bodies("a.example"); got != "one" {
			t.Errorf("once it is known: %s", got)
		}
		keyless(true)
		r.put(p, wants("t1-s", "a", func(reg *push.Registration) { reg.User.Credential = "key:2" })) // another one
		r.happens("t1-s", "two")
		time.Sleep(2 * time.Minute)
		keyless(false)
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if got := r.bodies("a.example"); got != "one two" {
			t.Errorf("with another key: %s", got)
		}
		keyless(true)
		r.put(p, wants("t1-s", "a", func(reg *push.Registration) { reg.User.Credential = "key:3" }))
		r.happens("t1-s", "three")
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		if got := r.counted(); !strings.Contains(got, "ended_total:no_access=1") || r.bodies("a.example") != "one two" {
			t.Errorf("by a key that nobody knows: %s, %s", r.bodies("a.example"), got)
		}
	})
}

// Two users who are told of one task at one receiver are told under different ids.
func TestIDsOfUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		p := r.pushes()
		defer r.run(p)()
		r.put(p, wants("t1-s", "a"), wants("t1-s", "a", by("default", "bob")))
		r.happens("t1-s", "one", "two")
		synctest.Wait()
		ids := map[string]bool{}
		for _, x := range r.seen("a.example") {
			ids[x.id] = true
		}
		if len(ids) != 4 {
			t.Errorf("%v", ids)
		}
	})
}
