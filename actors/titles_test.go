package actors

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"parley/actors/actorstest"
	"parley/conversation"
)

// titled has a model of its own for titles.
func titled(names *actorstest.Model) func(*harness) {
	return func(h *harness) {
		h.cfg.TitleModel = "names"
		h.models = map[string]conversation.Model{"": h.model, "names": names}
	}
}

// turn is one message with its answer.
func (h *harness) turn(id, text string) {
	h.t.Helper()
	h.ok(h.tell(mainKey, say(id, text)))
	h.reply(actorstest.Text("answer to " + text))
}

// Rule 9.2c. Behind its first answer a session is named by the model of titles, once, and it is
// stored; the tokens count.
func TestSessionsAreNamed(t *testing.T) {
	names := &actorstest.Model{Name: "namer"}
	withHarness(t, titled(names), func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.turn("a", "Where is Rome?"+strings.Repeat(" far away", 1000))
		if len(names.Open()) != 1 {
			t.Fatalf("%d titles are asked for", len(names.Open()))
		}
		r := names.Open()[0].Request
		if text := r.Entries[0].Text; len(r.Entries) != 1 || !strings.Contains(text, "Where is Rome?") || !strings.Contains(text, "answer to") || len(text) > 5000 || r.Tools != nil || r.Step != 0 {
			t.Errorf("the request is %+v", r)
		}
		names.Open()[0].Answer(actorstest.Text("\"A trip to Rome\"\nbecause of it"))
		synctest.Wait()
		if v := h.view(mainKey); v.Title != "A trip to Rome" {
			t.Errorf("it is called %q", v.Title)
		}
		h.turn("b", "and Milan?")
		if len(names.Calls()) != 1 || h.count(mainKey, conversation.KindSessionUpdated) != 1 {
			t.Errorf("%d titles were asked for, %d given", len(names.Calls()), h.count(mainKey, conversation.KindSessionUpdated))
		}
		h.restart()
		if v := h.view(mainKey); v.Title != "A trip to Rome" {
			t.Errorf("after a start it is called %q", v.Title)
		}
	})
}

// What a person has said stays: before, so no model is asked, and meanwhile.
func TestNoModelTakesAPersonsTitle(t *testing.T) {
	mine := "Mine"
	for name, before := range map[string]bool{"before": true, "meanwhile": false} {
		t.Run(name, func(t *testing.T) {
			names := &actorstest.Model{Name: "namer"}
			withHarness(t, titled(names), func(t *testing.T, h *harness) {
				h.create(mainKey)
				if before {
					h.ok(h.tell(mainKey, conversation.Update{By: ada, Title: &mine}))
				}
				h.turn("a", "Where is Rome?")
				if before {
					if len(names.Calls()) != 0 {
						t.Error("a model is asked")
					}
					return
				}
				h.ok(h.tell(mainKey, conversation.Update{By: ada, Title: &mine}))
				names.Open()[0].Answer(actorstest.Text("A trip"))
				synctest.Wait()
				if v := h.view(mainKey); v.Title != mine || h.count(mainKey, conversation.KindSessionUpdated) != 1 {
					t.Errorf("it is called %q", v.Title)
				}
			})
		})
	}
}

// A model that fails or says nothing leaves the first words, and is asked behind two more
// tasks at most; without the setting none is asked.
func TestTitlesThatFail(t *testing.T) {
	names := &actorstest.Model{Name: "namer"}
	withHarness(t, titled(names), func(t *testing.T, h *harness) {
		h.create(mainKey)
		for i, id := range []string{"a", "b", "c", "d", "e"} {
			h.turn(id, "question "+id)
			for _, c := range names.Open() {
				if i == 0 {
					c.Fail(errors.New("secret"))
				} else {
					c.Answer(actorstest.Text(" "))
				}
			}
			synctest.Wait()
		}
		if v := h.view(mainKey); v.Title != "question a" || len(names.Calls()) != 3 {
			t.Errorf("it is called %q, asked %d times", v.Title, len(names.Calls()))
		}
	})
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.turn("a", "question")
		if len(h.model.Calls()) != 1 || h.count(mainKey, conversation.KindSessionUpdated) != 0 {
			t.Error("a title is asked for")
		}
	})
}
