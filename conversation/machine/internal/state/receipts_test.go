package state

import (
	"fmt"
	"testing"

	"parley/conversation"
	"parley/conversation/machine/internal/receipts"
)

// A session remembers the words of the last parts that answered a message, and of none that
// only acknowledge one.
func TestAnswersAreBounded(t *testing.T) {
	st, task := New(conversation.SessionKey{Tenant: "t", Session: "s"}), &Task{N: 1}
	answer := func(i int, text string) {
		part := conversation.PartIndex(i)
		task.Messages = []*Message{{ID: "m1-s", Read: 1, Words: receipts.Of(fmt.Sprintf("question%d", i), receipts.MessageWords)}}
		task.LastPart = &conversation.Part{Index: part, Text: text}
		applyResolved(&st, task, conversation.MessageResolved{Message: "m1-s", How: conversation.ResolvedAnswered, Evidence: conversation.EvidenceOnly, Part: &part})
	}
	for i := range 2 * maxAnswers {
		answer(i, fmt.Sprintf("this is answer%d", i))
		answer(i, "Done, you're welcome!")
	}
	all := st.Heard.Told()
	if len(all) != maxAnswers {
		t.Fatalf("%d answers are remembered", len(all))
	}
	for i, a := range all {
		n := i + maxAnswers
		if !receipts.Equal(a.Words, receipts.Of(fmt.Sprintf("this is answer%d", n), 99)) || !receipts.Equal(a.Asked, receipts.Of(fmt.Sprintf("question%d", n), 99)) {
			t.Errorf("answer %d is %+v", n, a)
		}
	}
}

// Of the parts of which nobody knows whom they answer a task remembers the last ones.
func TestShownIsBounded(t *testing.T) {
	task := &Task{Messages: []*Message{{ID: "m1-s", Read: 1}, {ID: "m2-s", Read: 1}}}
	for i := range 2 * maxShown {
		task.noteShown(conversation.Part{Index: conversation.PartIndex(i), Text: fmt.Sprintf("part%d", i)})
	}
	if n := len(task.Shown); n != maxShown || task.Shown[0].Part != maxShown {
		t.Errorf("%d parts, from %d", n, task.Shown[0].Part)
	}
}

// An agent's model names messages once it has said of one what became of it without having
// been asked; it does not when it has nothing to say to a closing nudge.
// Rules 2.20, 8.13.
func TestHabits(t *testing.T) {
	const plain, alone, closing, judged = conversation.NudgePlain, conversation.NudgeAlone, conversation.NudgeClosing, conversation.NudgeJudged
	type answer struct {
		form         conversation.NudgeForm
		tool         string
		args, result string // result "" = that the call holds
	}
	cover, respond := conversation.ToolCover, conversation.ToolRespond
	for _, c := range []struct {
		name           string
		answers        []answer
		names, ignores bool
	}{
		{"text", []answer{{form: plain}}, false, false},
		{"a cover", []answer{{plain, cover, `{"messageId":1}`, ""}}, true, false},
		{"a cover that does not hold", []answer{{plain, cover, `{"messageId":9}`, "error: none"}}, false, false},
		{"a name", []answer{{plain, respond, `{"inReplyTo":1}`, ""}}, true, false},
		{"a name, by its other word", []answer{{plain, respond, `{"messageId":"1"}`, ""}}, true, false},
		{"no name", []answer{{plain, respond, `{"message":"x"}`, ""}}, false, false},
		{"names left out", []answer{{plain, respond, `{"inReplyTo":"","messageId":null}`, ""}, {plain, respond, `{"inReplyTo":" "}`, ""}}, false, false},
		{"a name that is none", []answer{{plain, respond, `{"inReplyTo":"x"}`, conversation.ResultDelivered + "; inReplyTo names no open message"}}, false, false},
		{"another tool", []answer{{plain, "clock", `{"inReplyTo":1}`, ""}}, false, false},
		{"because it was asked for one", []answer{{alone, respond, `{"inReplyTo":1}`, ""}}, false, false},
		{"because it had to", []answer{{closing, cover, `{"messageId":1}`, ""}}, false, false},
		{"ignores", []answer{{form: closing}}, false, true},
		{"ignores, although it named", []answer{{plain, cover, `{"messageId":1}`, ""}, {form: closing}}, false, true},
		{"names after all", []answer{{form: closing}, {plain, cover, `{"messageId":1}`, ""}}, true, false},
		{"does not ignore the next", []answer{{form: closing}, {closing, cover, `{"messageId":1}`, ""}}, false, false},
		{"another model judges", []answer{{judged, cover, `{"messageId":1}`, ""}}, false, false},
	} {
		st := New(conversation.SessionKey{Tenant: "t", Session: "s"})
		for _, a := range c.answers {
			b := conversation.StepFinished{Outcome: conversation.StepOK}
			if a.result == "" {
				a.result = map[string]string{cover: conversation.ResultCovered}[a.tool]
			}
			if a.result == "" {
				a.result = conversation.ResultDelivered
			}
			if a.tool != "" {
				b.Items = []conversation.Item{{Kind: conversation.ItemCall, ID: "k", Tool: a.tool, Args: a.args}}
				b.Results = []conversation.CallResult{{ID: "k", Text: a.result}}
			}
			noteHabit(&st, &Step{Agent: "a", Form: a.form}, b)
			noteHabit(&st, &Step{Agent: "a", Form: a.form}, conversation.StepFinished{Outcome: conversation.StepError}) // a failure says nothing
		}
		if st.Heard.Names("a") != c.names || st.Heard.IgnoresClosing("a") != c.ignores || st.Heard.Names("b") || st.Heard.IgnoresClosing("b") {
			t.Errorf("%s: %+v", c.name, st.Heard)
		}
		if judge := c.answers[0].form == judged; judge && st.Heard != nil {
			t.Errorf("%s: %+v is remembered", c.name, st.Heard)
		}
	}
}
