package actors

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"parley/actors/actorstest"
	"parley/conversation"
)

// after a clear no model sees what was before, in memory or read from the store
// again; the chat and its key go on, with everything that was stored.
func TestClear(t *testing.T) {
	for _, away := range []bool{false, true} {
		withHarness(t, nil, func(t *testing.T, h *harness) {
			leave := func() {
				if away {
					h.forget(mainKey)
				}
			}
			h.create(mainKey)
			h.ok(h.tell(mainKey, say("a", "My name is Ann.")))
			h.reply(actorstest.Text("Hello Ann."))
			leave()
			cleared := h.ok(h.tell(mainKey, conversation.Clear{By: ada}))
			leave()
			if again := h.ok(h.tell(mainKey, conversation.Clear{By: ada})); again.Seq != cleared.Seq {
				t.Errorf("away %v: cleared at %d, and again at %d", away, cleared.Seq, again.Seq)
			}
			leave()
			h.ok(h.tell(mainKey, say("b", "Who am I?")))
			if got := texts(h.call().Request); !slices.Equal(got, []string{"Who am I?"}) {
				t.Errorf("away %v: the model is shown %q", away, got)
			}
			h.reply(actorstest.Text("I do not know."))
			leave()
			h.ok(h.tell(mainKey, say("c", "Really?")))
			if got := texts(h.call().Request); !slices.Equal(got, []string{"Who am I?", "Really?"}) {
				t.Errorf("away %v: the model is shown %q", away, got)
			}
			h.reply(actorstest.Text("Really."))
			if n := h.count(mainKey, conversation.KindMessageAccepted); n != 3 {
				t.Errorf("%d messages are stored", n)
			}
			if first := h.ok(h.tell(mainKey, say("a", "My name is Ann."))); !first.Duplicate {
				t.Error("a message of before was taken again")
			}
			h.assertComplete(mainKey)
		})
	}
}

// A task that runs at a clear goes on with its model call. The next one sees only what
// came after, and not the message that began it.
func TestClearBesideTask(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "My name is Ann.")))
		h.reply(actorstest.Text("Hello Ann."))
		h.ok(h.tell(mainKey, say("b", "Write to Max")))
		running := h.call()
		h.ok(h.tell(mainKey, conversation.Clear{By: ada}))
		if running.Over() {
			t.Fatal("the clear has stopped the model call")
		}
		running.Answer(actorstest.Text("Sent."))
		synctest.Wait()
		h.ok(h.tell(mainKey, say("c", "Sent what?")))
		r := h.call().Request
		if got := texts(r); !slices.Equal(got, []string{"Sent what?"}) || len(r.Entries) != 2 {
			t.Errorf("the model is shown %q, %d entries", got, len(r.Entries))
		}
		h.reply(actorstest.Text("I do not know."))
		h.assertComplete(mainKey)
	})
}

// A summary that is still being made at a clear is stopped; one whose answer is there is
// not taken. The next one is of what came after.
func TestClearDropsSummary(t *testing.T) {
	withHarness(t, narrow, func(t *testing.T, h *harness) {
		h.create(mainKey)
		for _, name := range []string{"one", "two", "three"} {
			h.chat(name)
		}
		summary := h.asking()
		if summary == nil {
			t.Fatal("no summary is being made")
		}
		h.ok(h.tell(mainKey, conversation.Clear{By: ada}))
		synctest.Wait()
		if !summary.Over() || h.summaries()["stopped"] != 1 {
			t.Errorf("the model goes on with the summary: %v", h.summaries())
		}
		summary.Answer(actorstest.Text("They said one."))
		synctest.Wait()
		if n := h.count(mainKey, conversation.KindContextCompacted); n != 0 {
			t.Errorf("%d summaries are stored", n)
		}
		for _, name := range []string{"four", "five", "six"} {
			h.chat(name)
		}
		next := h.asking()
		if next == nil {
			t.Fatal("there is no summary of what came after")
		}
		if got := texts(next.Request); slices.ContainsFunc(got, func(s string) bool { return s == "one" || s == "two" || s == "three" }) || !slices.Contains(got, "four") {
			t.Errorf("it is of %q", got)
		}
		next.Answer(actorstest.Text("They said four."))
		synctest.Wait()
		h.ok(h.tell(mainKey, say("seven", "seven")))
		if got := strings.Join(texts(h.step().Request), "|"); !strings.HasPrefix(got, "four|[summary of the conversation so far: They said four.]") {
			t.Errorf("the model is shown %q", got)
		}
		h.step().Answer(actorstest.Text("7"))
		synctest.Wait()
		h.assertComplete(mainKey)
	})
}

// A tool knows for which task it runs: what a search may find depends on it.
func TestToolKnowsItsTask(t *testing.T) {
	asked := make(chan conversation.ToolCall, 1)
	withTool(t, conversation.ToolSpec{}, func(_ context.Context, c conversation.ToolCall) (string, error) {
		asked <- c
		return "found", nil
	}, func(t *testing.T, h *harness, _ *actorstest.Tool) {
		synctest.Wait()
		if c := <-asked; c.Task != "t1-"+conversation.TaskID(mainKey.Session) || c.Key != mainKey {
			t.Errorf("%+v", c)
		}
		h.reply(actorstest.Text("done"))
	})
}
