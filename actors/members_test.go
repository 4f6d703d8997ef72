package actors

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"parley/actors/actorstest"
	"parley/conversation"
	"parley/conversation/access"
)

// as tells a command as somebody.
func (h *harness) as(user conversation.UserID, key conversation.SessionKey, c conversation.Command) *answer {
	a := &answer{}
	h.e.Tell(key, user, c, func(r conversation.Receipt, err error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.times++
		a.receipt, a.err = r, err
	})
	return a
}

// sees is the code that refuses a user the view of a session; "" = he sees it.
func (h *harness) sees(user conversation.UserID, key conversation.SessionKey) (code conversation.Code) {
	h.t.Helper()
	code = "no answer"
	h.e.View(key, user, func(_ conversation.View, err error) {
		if code = ""; err != nil {
			code = conversation.AsError(err).Code
		}
	})
	synctest.Wait()
	return code
}

// N-18. Roles say who may do what, from the commit on that gives them: only who may answers
// a question or an approval, the model is told who did, a member may leave by himself, and a
// delegation's members are those of its root. A session in memory and one that is not say
// the same.
func TestMembersRoles(t *testing.T) {
	type roles = map[conversation.UserID]access.Role
	withHarness(t, func(h *harness) {
		h.tools = map[string]conversation.Tool{"rm": &actorstest.Tool{
			Is: conversation.ToolSpec{Name: "rm", Approval: true}, Do: func(context.Context, conversation.ToolCall) (string, error) { return "gone", nil },
		}}
	}, func(t *testing.T, h *harness) {
		h.create(mainKey)
		for _, user := range []conversation.UserID{"rea", "app", "wri"} {
			if code := h.sees(user, mainKey); code != conversation.NotFound {
				t.Errorf("%s before he is a member: %q", user, code)
			}
		}
		h.ok(h.tell(mainKey, conversation.Update{By: ada, Members: roles{"rea": access.Reader, "app": access.Approver, "wri": access.Writer}}))
		h.ok(h.tell(mainKey, say("a", "tidy up")))
		h.reply(actorstest.Use("k1", "rm", `{}`))
		q := h.view(mainKey).Questions[0].Asked.Question

		answer := func(user conversation.UserID) *answer {
			return h.as(user, mainKey, conversation.Answer{Author: user, ClientMsgID: "y", Question: q, Text: "yes"})
		}
		h.refused(answer("rea"), conversation.Forbidden)
		h.refused(answer("eve"), conversation.NotFound)
		h.refused(h.as("app", mainKey, conversation.Say{Author: "app", ClientMsgID: "s", Text: "more"}), conversation.Forbidden)
		h.refused(h.as("wri", mainKey, conversation.Update{By: "wri", Members: roles{"eve": access.Reader}}), conversation.Forbidden)
		h.refused(h.as("app", mainKey, conversation.Update{By: "app", Members: roles{"app": access.Owner}}), conversation.Forbidden)
		h.refused(h.as("app", mainKey, conversation.Update{By: "app", Members: roles{"rea": access.None}}), conversation.Forbidden)
		h.ok(answer("app"))
		h.ok(h.as("wri", mainKey, conversation.Say{Author: "wri", AuthorName: "Willa", ClientMsgID: "s", Text: "and sweep"}))
		h.reply(actorstest.Use("x", conversation.ToolDelegate, `{"agent":"researcher","objective":"look it up"}`))
		var shown []string
		for _, c := range h.model.Calls() {
			for _, e := range c.Request.Entries {
				if e.Message != "" && c.Request.Named {
					shown = append(shown, e.Text)
				}
			}
		}
		if all := strings.Join(shown, "|"); !strings.Contains(all, "[from "+string(ada)+" ("+string(ada)+")]\ntidy up") || !strings.Contains(all, "[from Willa (wri)]\nand sweep") {
			t.Errorf("the model was told %q", shown)
		}

		for _, memory := range []string{"in memory", "not in memory"} {
			for user, code := range map[conversation.UserID]conversation.Code{"rea": "", "app": "", "wri": "", "eve": conversation.NotFound} {
				for _, key := range []conversation.SessionKey{mainKey, sub} {
					if got := h.sees(user, key); got != code {
						t.Errorf("%s: %s sees %s: %q, want %q", memory, user, key.Session, got, code)
					}
				}
			}
			if memory == "in memory" {
				h.restart()
			}
		}
		h.refused(h.as("wri", sub, conversation.Say{Author: "wri", ClientMsgID: "t", Text: "hurry"}), conversation.Forbidden)
		h.refused(h.as("eve", sub, conversation.Say{Author: "eve", ClientMsgID: "t", Text: "hurry"}), conversation.NotFound)

		h.ok(h.as("rea", mainKey, conversation.Update{By: "rea", Members: roles{"rea": access.None}}))
		if a, b := h.sees("rea", mainKey), h.sees("rea", sub); a != conversation.NotFound || b != conversation.NotFound {
			t.Errorf("who has left sees %q and %q", a, b)
		}
		h.refused(h.as(ada, mainKey, conversation.Update{By: ada, Members: roles{ada: access.None}}), conversation.Conflict)
		if m := h.view(mainKey).Members; len(m) != 2 || m["app"] != access.Approver || m["wri"] != access.Writer {
			t.Errorf("the members are %v", m)
		}
	})
}
