package actors

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"parley/conversation"
	"parley/persistence/persistencetest"
)

// Who may read a session is told to its followers' side behind the commit that changes
// it, as of that commit, after the answer and before its events; and again when the session
// comes into memory, because the process may have ended between the commit and the word.
func TestAudienceIsTold(t *testing.T) {
	withHarness(t, func(h *harness) { h.pub.Asked = []conversation.UserID{ada, "eve"} }, func(t *testing.T, h *harness) {
		h.create(mainKey)
		open, closed := conversation.AccessTenant, conversation.AccessPrivate
		h.ok(h.tell(mainKey, conversation.Update{Access: &open}))
		since := len(h.journal.Lines())
		told := func(want string) {
			t.Helper()
			synctest.Wait()
			lines := h.journal.Lines()
			if got := strings.Join(lines[since:], "; "); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			since = len(lines)
		}
		gate := h.store.Hold(persistencetest.BeforeWrite, holds(conversation.KindSessionUpdated))
		first := h.tell(mainKey, conversation.Update{Access: &closed})
		h.silent(first)
		again := h.tell(mainKey, conversation.Update{Access: &open}) // decided, but of the next commit
		told("")
		gate.Release()
		h.ok(first)
		h.ok(again)
		told("answer update; audience aaaaaaaaaaaaaaaa ada true; audience aaaaaaaaaaaaaaaa eve false; publish session_updated; " +
			"answer update; audience aaaaaaaaaaaaaaaa ada true; audience aaaaaaaaaaaaaaaa eve true; publish session_updated")
		title := "T"
		h.ok(h.tell(mainKey, conversation.Update{Title: &title}))
		told("answer update; publish session_updated")
		h.forget(mainKey)
		h.ok(h.tell(mainKey, conversation.Clear{By: ada}))
		told("audience aaaaaaaaaaaaaaaa ada true; audience aaaaaaaaaaaaaaaa eve true; answer clear; publish context_cleared")
	})
}

// Users may only read below a root, whatever their role in it: the engine itself sees to
// that, not only the gateway.
func TestNothingIsWrittenBelowARoot(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		below := conversation.SessionKey{Tenant: mainKey.Tenant, Session: mainKey.Session + "/d1"}
		ask := func(as conversation.UserID, c conversation.Command) conversation.Code {
			var code conversation.Code
			h.e.Tell(below, as, c, func(_ conversation.Receipt, err error) {
				if e := conversation.AsError(err); e != nil {
					code = e.Code
				}
			})
			synctest.Wait()
			return code
		}
		title := "T"
		writes := []conversation.Command{
			say("z", "x"), conversation.Cancel{By: conversation.ByUser}, conversation.Clear{By: ada}, conversation.Close{}, conversation.Update{Title: &title},
			conversation.Answer{Author: ada, ClientMsgID: "y", Question: "q1", Text: "x"}, conversation.Recovered{}, conversation.HandOut{},
		}
		for _, c := range writes {
			if code := ask(ada, c); code != conversation.Forbidden {
				t.Errorf("%s by the owner: %q", c.Name(), code)
			}
			if code := ask("eve", c); code != conversation.NotFound {
				t.Errorf("%s by a stranger: %q", c.Name(), code)
			}
		}
		if slices.Contains(h.journal.Lines(), "publish message_accepted") {
			t.Error("something was said")
		}
	})
}
