package a2a_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/machine/machinetest"
	"parley/conversation/policy"
	"parley/gateway"
	"parley/gateway/a2a"
	"parley/gateway/gatewaytest"
)

// A message begins a task in a context of its own, and is answered when the task has ended. Said
// again it makes no other one; with the context of the first there is another task in it.
func TestSend(t *testing.T) {
	both(t, func(t *testing.T, binding string) {
		r := start(t, binding)
		first := r.request("SendMessage", atOnce("u1", "Hello", "")).task()
		if first.Status.State != "TASK_STATE_WORKING" || first.ContextID != first.Metadata.Parley.Session || first.ID != "t1-"+first.ContextID {
			t.Fatalf("the task is %+v", first)
		}
		waits := make(chan *wire)
		go func() { waits <- r.request("SendMessage", says("u1", "Hello", "")).task() }()
		r.model(first, text("Good day"))
		done := <-waits
		if done.ID != first.ID || done.Status.State != "TASK_STATE_COMPLETED" || !slices.Equal(done.texts(), []string{"Good day"}) {
			t.Errorf("in the end it is %+v", done)
		}
		if len(done.History) != 1 || done.History[0].MessageID != "u1" || len(done.Metadata.Parley.Receipts) != 1 || done.Metadata.Parley.Receipts[0].How != "answered" {
			t.Errorf("its history is %+v, its receipts %+v", done.History, done.Metadata.Parley.Receipts)
		}
		second := r.request("SendMessage", atOnce("u2", "And now?", `,"contextId":"`+first.ContextID+`"`)).task()
		if second.ContextID != first.ContextID || second.ID != "t2-"+first.ContextID {
			t.Errorf("another message of the context is %+v", second)
		}
		if other := r.request("SendMessage", atOnce("u3", "Hello", "")).task(); other.ContextID == first.ContextID {
			t.Errorf("another message without a context is %+v", other)
		}
	})
}

// A context that the client names is called so in the answers to what names it. By its session's id
// it is found as well.
func TestContextOfTheClient(t *testing.T) {
	both(t, func(t *testing.T, binding string) {
		r := start(t, binding)
		one := r.request("SendMessage", atOnce("u1", "One", `,"contextId":"mine"`)).task()
		two := r.request("SendMessage", atOnce("u2", "Two", `,"contextId":"`+one.Metadata.Parley.Session+`"`)).task()
		if one.ContextID != "mine" || two.ContextID != one.Metadata.Parley.Session || two.ContextID == "mine" || two.ID != "t2-"+two.ContextID {
			t.Errorf("%+v and %+v", one, two)
		}
		three := r.request("SendMessage", atOnce("u3", "Three", `,"contextId":"mine","taskId":"`+one.ID+`"`)).task()
		if three.ID != one.ID || three.ContextID != "mine" || len(three.History) != 2 {
			t.Errorf("a message for the first task is %+v", three)
		}
		if got := r.request("GetTask", `{"id":"`+one.ID+`"}`).task(); got.ContextID != one.Metadata.Parley.Session {
			t.Errorf("asked for by its id alone it is %+v", got)
		}
	})
}

// A client that is cut off behind any event, and comes back with the last id that it has seen, has
// the same as one that was there all the time.
func TestResumeAtEachEvent(t *testing.T) {
	both(t, func(t *testing.T, binding string) {
		r := start(t, binding)
		a := r.follows("SendStreamingMessage", says("u1", "Hello", ""))
		told := a.until("TASK_STATE_WORKING")
		w := r.request("GetTask", `{"id":"`+a2a.Read(told).ID+`"}`).task()
		show := func(draft conversation.DraftID, at int, text string) {
			r.show(w, w.delta(draft, at, text))
			told += a.until("artifactUpdate")
		}
		show("1.1.0", 0, "Let me ")
		show("1.1.0", 7, "sée. ")
		r.model(w, text("Let me sée. Yes."), call("clock", `{}`))
		told += a.until(`"lastChunk":true`)
		r.sessions.Play(func(m *machinetest.World) { m.Session(gatewaytest.Key(w.ContextID)).Return("c1", "12:30", time.Second) })
		show("2.1.0", 0, "It")
		r.show(w, conversation.DraftDropped{Task: conversation.TaskID(w.ID), Draft: "2.1.0"})
		told += a.until(`"dropped":true`)
		r.model(w, call(conversation.ToolAsk, `{"question":"Sure?","blocking":false}`))
		told += a.until("Sure?")
		show("3.1.0", 0, "It is ")
		r.request("SendMessage", atOnce("u2", "yes", `,"taskId":"`+w.ID+`","metadata":{"parley":{"question":"q1"}}`)).task()
		told += a.until(`"receipt"`)
		show("3.1.0", 6, "12:")
		r.model(w, text("It is 12:30"))
		r.model(w, call(conversation.ToolRespond, `{"message":"And that is all","inReplyTo":1}`))
		r.model(w)
		told += a.all()

		whole := has(t, told)
		for _, want := range []string{"Let me sée. Yes.", "It is 12:30", "And that is all", "u1 answered", "TASK_STATE_COMPLETED"} {
			if !strings.Contains(whole, want) {
				t.Errorf("%s is missing in %s", want, whole)
			}
		}
		seen := a2a.Read(told)
		if len(seen.IDs) < 15 {
			t.Fatalf("only %d events: %q", len(seen.IDs), seen.Events)
		}
		for i, id := range seen.IDs {
			before := strings.Join(strings.SplitAfter(told, "\n\n")[:i+1], "")
			rest := r.follows("SubscribeToTask", `{"id":"`+w.ID+`"}`, "Last-Event-ID", id).all()
			if got := has(t, before, rest); got != whole {
				t.Fatalf("cut off behind %s it is\n%s\nand was\n%s\nthe rest:\n%s", id, got, whole, rest)
			}
		}
		if again := has(t, r.follows("SendStreamingMessage", says("u1", "Hello", "")).all()); again != whole {
			t.Errorf("said again it is\n%s\nand was\n%s", again, whole)
		}
		stored := r.request("GetTask", `{"id":"`+w.ID+`"}`).task()
		if got := fmt.Sprintf("%q", stored.texts()); !strings.Contains(whole, got) {
			t.Errorf("asked for it has %s, and was told %s", got, whole)
		}
	})
}

// Who comes in the middle of a text has it from its beginning, and goes on with it; so has one that
// was cut off there.
func TestInTheMiddleOfAText(t *testing.T) {
	both(t, func(t *testing.T, binding string) {
		r := start(t, binding)
		w := r.request("SendMessage", atOnce("u1", "Hello", "")).task()
		subscribe := `{"id":"` + w.ID + `"}`
		one := r.follows("SubscribeToTask", subscribe)
		first := one.until(`"task"`)
		r.show(w, w.delta("1.1.0", 0, "Good "))
		first += one.until("Good ")
		r.sessions.Drafts(gatewaytest.Key(w.ContextID), conversation.DraftView{Task: conversation.TaskID(w.ID), Draft: "1.1.0", Text: "Good "})
		two := r.follows("SubscribeToTask", subscribe)
		second := two.until("Good ")
		ids := a2a.Read(first).IDs
		one.end()
		back := r.follows("SubscribeToTask", subscribe, "Last-Event-ID", ids[len(ids)-1])
		rest := back.until(`"task"`)
		r.show(w, w.delta("1.1.0", 5, "day"))
		second += two.until("day")
		rest += back.until("day")
		r.model(w, text("Good day"))
		second += two.all()
		rest += back.all()
		want := `TASK_STATE_COMPLETED ["Good day"] asks "" receipts ["u1 answered"]`
		for _, got := range []string{has(t, second), has(t, first, rest)} {
			if got != want {
				t.Errorf("it is %s, want %s", got, want)
			}
		}
	})
}

// What a task asks is answered by a message for it: the first question that blocks, or the one that
// the message names. A stream of the answer begins with a task that asks no more.
func TestQuestions(t *testing.T) {
	both(t, func(t *testing.T, binding string) {
		r := start(t, binding)
		a := r.follows("SendStreamingMessage", says("u1", "Hello", ""))
		told := a.until("TASK_STATE_WORKING")
		w := r.request("GetTask", `{"id":"`+a2a.Read(told).ID+`"}`).task()
		to := `,"taskId":"` + w.ID + `"`
		r.model(w, call(conversation.ToolAsk, `{"question":"Where?","blocking":true}`), call(conversation.ToolAsk, `{"question":"When?","blocking":true}`))
		if got, want := has(t, told+a.all()), `TASK_STATE_INPUT_REQUIRED [] asks "Where?|When?" receipts []`; got != want {
			t.Errorf("it asks %s, want %s", got, want)
		}
		named := strings.Replace(says("u2", "Now", to), `"parts"`, `"metadata":{"parley":{"question":"q2"}},"parts"`, 1)
		if half := r.request("SendMessage", named).task(); half.Status.State != "TASK_STATE_INPUT_REQUIRED" || half.Status.Message.Parts[0].Text != "Where?" {
			t.Errorf("with one answer it is %+v", half)
		}
		back := r.follows("SendStreamingMessage", says("u3", "Here", to))
		rest := back.until("TASK_STATE_WORKING")
		r.model(w, text("Here and now"))
		rest += back.all()
		seen := a2a.Read(rest)
		if got := has(t, rest); !strings.HasPrefix(got, `TASK_STATE_COMPLETED ["Here and now"] asks ""`) || seen.Events[0] != "task TASK_STATE_SUBMITTED" || slices.Contains(seen.Events, "TASK_STATE_INPUT_REQUIRED") {
			t.Errorf("the answer tells %s: %q", got, seen.Events)
		}
		if again := r.request("SendMessage", says("u3", "Here", to)).task(); again.Status.State != "TASK_STATE_COMPLETED" || len(again.History) != 5 {
			t.Errorf("said again it is %+v", again)
		}
		whole := r.request("GetTask", `{"id":"`+w.ID+`"}`).task()
		roles := []string{}
		for _, m := range whole.History {
			roles = append(roles, m.Role+" "+m.Parts[0].Text)
		}
		if want := []string{"ROLE_USER Hello", "ROLE_AGENT Where?", "ROLE_AGENT When?", "ROLE_USER Now", "ROLE_USER Here"}; !slices.Equal(roles, want) {
			t.Errorf("the history is %q, want %q", roles, want)
		}
	})
}

// A question can be answered by its name, and without its task.
func TestAnswerInAContext(t *testing.T) {
	r := start(t, rpc)
	nowhere := atOnce("u0", "Here", `,"contextId":"mine","metadata":{"parley":{"question":"q1"}}`)
	if reason, text := r.request("SendMessage", nowhere).refused(); reason != "INVALID_PARAMS" || !strings.Contains(text, "names no question") {
		t.Errorf("an answer to nothing: %s", text)
	}
	w := r.request("SendMessage", atOnce("u1", "Hello", "")).task()
	r.model(w, call(conversation.ToolAsk, `{"question":"Where?","blocking":true}`))
	answer := atOnce("u2", "Here", `,"contextId":"`+w.ContextID+`","metadata":{"parley":{"question":"q1","other":1},"others":2}`)
	if got := r.request("SendMessage", answer).task(); got.ID != w.ID || got.Status.State != "TASK_STATE_WORKING" {
		t.Errorf("the answer is %+v", got)
	}
}

// What only those with read:tools may see of an approval is not shown to others.
func TestRedacted(t *testing.T) {
	both(t, func(t *testing.T, binding string) {
		r := start(t, binding, withKeys)
		r.sessions.Play(func(m *machinetest.World) {
			m.Rules.Tools["rm"] = policy.ToolRule{Spec: conversation.ToolSpec{Name: "rm", Approval: true}}
		})
		w := r.request("SendMessage", atOnce("u1", "Hello", ""), "Authorization", "Bearer ann").task()
		r.model(w, call("rm", `{"secret":"s3cret"}`))
		for key, want := range map[string]bool{"ann": true, "low": false} {
			got := r.request("GetTask", `{"id":"`+w.ID+`"}`, "Authorization", "Bearer "+key).all()
			stream := r.follows("SubscribeToTask", `{"id":"`+w.ID+`"}`, "Authorization", "Bearer "+key).until(`"task"`)
			if !strings.Contains(got, "INPUT_REQUIRED") || strings.Contains(got, "s3cret") != want || strings.Contains(stream, "s3cret") != want {
				t.Errorf("%s is shown %s and %s", key, got, stream)
			}
		}
	})
}

// A message for a task that runs steers it. One for a task that waits for its turn is refused: it
// would reach the one that runs.
func TestSteer(t *testing.T) {
	both(t, func(t *testing.T, binding string) {
		r := start(t, binding)
		w := r.request("SendMessage", atOnce("u1", "Hello", "")).task()
		next := r.request("SendMessage", atOnce("u2", "Then that", `,"contextId":"`+w.ContextID+`"`)).task()
		if next.Status.State != "TASK_STATE_SUBMITTED" {
			t.Errorf("the next task is %+v", next)
		}
		steer := atOnce("u3", "No, this", `,"taskId":"`+w.ID+`"`)
		for range 2 {
			if got := r.request("SendMessage", steer).task(); got.ID != w.ID || len(got.History) != 2 || got.History[1].MessageID != "u3" {
				t.Errorf("steered it is %+v", got)
			}
		}
		if reason, text := r.request("SendMessage", atOnce("u4", "Me too", `,"taskId":"`+next.ID+`"`)).refused(); reason != "UNSUPPORTED_OPERATION" || !strings.Contains(text, "waits for its turn") {
			t.Errorf("a message for the next task: %s", text)
		}
		if got := r.request("SendMessage", atOnce("u2", "Then that", `,"taskId":"`+next.ID+`"`)).task(); got.ID != next.ID || len(got.History) != 1 {
			t.Errorf("the next task's own message: %+v", got)
		}
		if reason, _ := r.request("SendMessage", atOnce("u5", "Stop", `,"taskId":"`+w.ID+`","metadata":{"parley":{"mode":"interrupt"}}`)).refused(); reason != "INVALID_PARAMS" {
			t.Errorf("another mode for a task: %s", reason)
		}
		now := r.request("SendMessage", atOnce("u6", "Stop", `,"contextId":"`+w.ContextID+`","metadata":{"parley":{"mode":"interrupt"}}`)).task()
		if was := r.request("GetTask", `{"id":"`+w.ID+`"}`).task(); was.Status.State != "TASK_STATE_CANCELED" || now.ID == w.ID {
			t.Errorf("interrupted it is %+v, by %+v", was, now)
		}
	})
}

// A message for a task that has ended is taken for what was said under its id before: also where
// that came too late for the task, and got one of its own.
func TestAgain(t *testing.T) {
	both(t, func(t *testing.T, binding string) {
		r := start(t, binding)
		w := r.request("SendMessage", atOnce("u1", "Hello", "")).task()
		r.model(w, text("Good day"))
		late := r.request("SendMessage", atOnce("u2", "And that", `,"contextId":"`+w.ContextID+`"`)).task()
		for _, c := range []struct{ id, text, task string }{
			{"u1", "Hello", w.ID}, {"u1", "Goodbye", "INVALID_PARAMS"},
			{"u2", "And that", late.ID}, {"u2", "And this", "INVALID_PARAMS"}, {"u3", "And that", "UNSUPPORTED_OPERATION"},
		} {
			a := r.request("SendMessage", atOnce(c.id, c.text, `,"taskId":"`+w.ID+`"`))
			if strings.HasPrefix(c.task, "t") {
				if got := a.task(); got.ID != c.task {
					t.Errorf("%s: %q is told as %+v", c.id, c.text, got)
				}
			} else if reason, text := a.refused(); reason != c.task {
				t.Errorf("%s: %q: %s", c.id, c.text, text)
			}
		}
	})
}

// A message that its task has left over has another task, of which it is the history.
func TestLeftOver(t *testing.T) {
	both(t, func(t *testing.T, binding string) {
		r := start(t, binding)
		w := r.request("SendMessage", atOnce("u1", "Hello", "")).task()
		r.request("SendMessage", atOnce("u2", "And that", `,"taskId":"`+w.ID+`"`)).task()
		r.sessions.Play(func(m *machinetest.World) {
			m.Session(gatewaytest.Key(w.ContextID)).Fail(conversation.Failure{Code: conversation.BadRequest, Message: "no such model"}, true)
		})
		next := "t2-" + w.ContextID
		got := r.request("GetTask", `{"id":"`+next+`"}`).task()
		if got.Status.State != "TASK_STATE_WORKING" || len(got.History) != 1 || got.History[0].MessageID != "u2" {
			t.Fatalf("the other task is %+v", got)
		}
		if was := r.request("GetTask", `{"id":"`+w.ID+`"}`).task(); was.Status.State != "TASK_STATE_FAILED" || was.Status.Message == nil {
			t.Errorf("the first one is %+v", was)
		}
		a := r.follows("SubscribeToTask", `{"id":"`+next+`"}`)
		told := a.until(`"task"`)
		r.model(w, text("That"))
		if got, want := has(t, told+a.all()), `TASK_STATE_COMPLETED ["That"] asks "" receipts ["u2 answered"]`; got != want {
			t.Errorf("it tells %s, want %s", got, want)
		}
	})
}

// A task is cancelled once.
func TestCancel(t *testing.T) {
	both(t, func(t *testing.T, binding string) {
		r := start(t, binding)
		w := r.request("SendMessage", atOnce("u1", "Hello", "")).task()
		a := r.follows("SubscribeToTask", `{"id":"`+w.ID+`"}`)
		if got := r.request("CancelTask", `{"id":"`+w.ID+`"}`).task(); got.ID != w.ID || got.Status.State != "TASK_STATE_CANCELED" {
			t.Errorf("cancelled it is %+v", got)
		}
		if got, want := has(t, a.all()), `TASK_STATE_CANCELED [] asks "" receipts ["u1 cancelled"]`; got != want {
			t.Errorf("who follows it has %s, want %s", got, want)
		}
		if reason, _ := r.request("CancelTask", `{"id":"`+w.ID+`"}`).refused(); reason != "TASK_NOT_CANCELABLE" {
			t.Errorf("cancelled again: %s", reason)
		}
	})
}

// Without room for another request that waits, the task is told as it is.
func TestWithoutRoomToWait(t *testing.T) {
	both(t, func(t *testing.T, binding string) {
		r := start(t, binding, func(c *gateway.Config, _ *gateway.Deps) {
			c.Limits.WaitsPerSession = 1
			c.Times.WaitMax = 50 * time.Millisecond
		})
		if w := r.request("SendMessage", says("u1", "Hello", "")).task(); w.Status.State != "TASK_STATE_WORKING" {
			t.Errorf("when the time is over it is %+v", w)
		}
		r = start(t, binding, func(c *gateway.Config, _ *gateway.Deps) { c.Limits.WaitsPerAddress = 1 })
		answers := make(chan *wire)
		for range 2 { // of two that would wait, one does
			go func() { answers <- r.request("SendMessage", says("u1", "Hello", "")).task() }()
		}
		w := <-answers
		if w.Status.State != "TASK_STATE_WORKING" {
			t.Errorf("without room to wait it is %+v", w)
		}
		r.model(w, text("Good day"))
		if w = <-answers; w.Status.State != "TASK_STATE_COMPLETED" {
			t.Errorf("the one that waits has %+v", w)
		}
	})
}

// Files come with their bytes, and are told by their address.
func TestFiles(t *testing.T) {
	both(t, func(t *testing.T, binding string) {
		r := start(t, binding)
		file := `,{"raw":"` + base64.URLEncoding.EncodeToString([]byte("a?b>c")) + `","mediaType":"text/plain","filename":"a.txt"}]`
		w := r.request("SendMessage", strings.Replace(atOnce("u1", "Look", ""), "]", file, 1)).task()
		if len(w.History) != 1 || len(w.History[0].Parts) != 2 {
			t.Fatalf("the task is %+v", w)
		}
		path, is := strings.CutPrefix(w.History[0].Parts[1].URL, r.url)
		if got := r.call("GET", path, "").want(200).all(); !is || got != "a?b>c" {
			t.Errorf("the file is %q", got)
		}
		none := start(t, binding, func(_ *gateway.Config, d *gateway.Deps) { d.Files = nil })
		if reason, _ := none.request("SendMessage", strings.Replace(atOnce("u1", "Look", ""), "]", file, 1)).refused(); reason != "CONTENT_TYPE_NOT_SUPPORTED" {
			t.Errorf("where there are no files: %s", reason)
		}
		many := start(t, binding, func(c *gateway.Config, _ *gateway.Deps) { c.Limits.AttachmentsPerMessage = 0 })
		if w := many.request("SendMessage", strings.Replace(atOnce("u1", "Look", ""), "]", file, 1)).task(); len(w.History) != 1 || len(w.History[0].Parts) != 2 {
			t.Errorf("where there may be any number: %+v", w)
		}
	})
}

// What is refused has opened no context, and what has no room to be followed is not said.
func TestRefusedAsAWhole(t *testing.T) {
	both(t, func(t *testing.T, binding string) {
		r := start(t, binding, func(c *gateway.Config, _ *gateway.Deps) {
			c.Limits.TextBytes, c.Limits.AttachmentsPerMessage, c.Limits.Streams = 64, 1, 1
		})
		file := func(members string) string {
			return `{"raw":"` + base64.StdEncoding.EncodeToString([]byte("a")) + `"` + members + `}`
		}
		for _, c := range []struct{ name, method, parts, reason string }{
			{"blank", "SendMessage", `{"text":" "}`, "INVALID_PARAMS"},
			{"blank, as a stream", "SendStreamingMessage", `{"text":" "}`, "INVALID_PARAMS"},
			{"blank beside a file", "SendMessage", `{"text":" "},` + file(`,"mediaType":"text/plain"`), "INVALID_PARAMS"},
			{"long", "SendMessage", `{"text":"` + strings.Repeat("x", 65) + `"}`, "INVALID_PARAMS"},
			{"a file of no type", "SendMessage", file(""), "CONTENT_TYPE_NOT_SUPPORTED"},
			{"a file of a type that is not taken", "SendMessage", file(`,"mediaType":"x/y"`), "CONTENT_TYPE_NOT_SUPPORTED"},
			{"a file that is not what it says", "SendMessage", file(`,"mediaType":"image/png"`), "CONTENT_TYPE_NOT_SUPPORTED"},
			{"an empty file", "SendMessage", `{"raw":"","mediaType":"text/plain"}`, "INVALID_PARAMS"},
			{"many files", "SendMessage", file(`,"mediaType":"text/plain"`) + "," + file(`,"mediaType":"text/plain"`), "INVALID_PARAMS"},
		} {
			if reason, text := r.request(c.method, `{"message":{"messageId":"u1","role":"ROLE_USER","parts":[`+c.parts+`]}}`).refused(); reason != c.reason {
				t.Errorf("%s: %s", c.name, text)
			}
		}
		contexts := func() int {
			var have struct{ Items []struct{ Session string } }
			if err := json.Unmarshal([]byte(r.call("GET", "/api/sessions", "").want(200).all()), &have); err != nil {
				t.Fatal(err)
			}
			return len(have.Items)
		}
		if n := contexts(); n != 0 {
			t.Errorf("%d contexts were opened", n)
		}
		first := r.follows("SendStreamingMessage", says("u2", "Hello", ""))
		first.until(`"task"`)
		if reason, text := r.request("SendStreamingMessage", says("u3", "Hello", "")).refused(); reason != "OVERLOADED" {
			t.Errorf("a second stream: %s", text)
		}
		if n := contexts(); n != 1 {
			t.Errorf("there are %d contexts", n)
		}
	})
}

// Lists have what the user may see, page by page.
func TestList(t *testing.T) {
	type list struct {
		Tasks         []*wire
		NextPageToken *string
		PageSize      int
		TotalSize     int
	}
	both(t, func(t *testing.T, binding string) {
		r := start(t, binding, withKeys)
		ann, bob := []string{"Authorization", "Bearer ann"}, []string{"Authorization", "Bearer bob"}
		ids := []string{}
		for i := range 5 {
			w := r.request("SendMessage", atOnce(fmt.Sprintf("u%d", i), "Hello", `,"contextId":"mine"`), ann...).task()
			ids = append([]string{w.ID}, ids...)
		}
		other := r.request("SendMessage", atOnce("v1", "Hello", ""), bob...).task()
		r.request("CancelTask", `{"id":"`+ids[2]+`"}`, ann...).task()

		got, token := []string{}, ""
		for page := 0; page == 0 || token != ""; page++ {
			var l list
			r.request("ListTasks", `{"contextId":"mine","pageSize":2,"pageToken":"`+token+`"}`, ann...).result(&l)
			if l.PageSize != 2 || l.TotalSize != 5 || l.NextPageToken == nil || page > 2 {
				t.Fatalf("page %d is %+v", page, l)
			}
			token = *l.NextPageToken
			names := []string{}
			for _, w := range l.Tasks {
				if w.ContextID != "mine" || w.Artifacts != nil || w.History != nil {
					t.Errorf("a task of the list is %+v", w)
				}
				names = append(names, w.ID)
			}
			slices.Sort(names)
			slices.Reverse(names)
			got = append(got, names...)
		}
		if !slices.Equal(got, ids) {
			t.Errorf("the pages have %q, want %q", got, ids)
		}
		for params, want := range map[string]int{
			`{}`: 5, `{"status":"TASK_STATE_CANCELED"}`: 1, `{"status":"TASK_STATE_REJECTED"}`: 0, `{"contextId":"` + other.ContextID + `"}`: 0,
			`{"contextId":"nothing"}`: 0, `{"tenant":"developer"}`: 0, `{"tenant":"coordinator"}`: 5, `{"statusTimestampAfter":"2099-01-01T00:00:00Z"}`: 0,
			`{"statusTimestampAfter":"1999-01-01T00:00:00.5Z"}`: 5, `{"includeArtifacts":true,"historyLength":1}`: 5, `{"unknown":1}`: 5,
		} {
			var l list
			r.request("ListTasks", params, ann...).result(&l)
			if len(l.Tasks) != want || l.TotalSize != want {
				t.Errorf("%s has %d tasks, and says %d, want %d", params, len(l.Tasks), l.TotalSize, want)
			}
			if strings.Contains(params, "historyLength") && len(l.Tasks[0].History) != 1 {
				t.Errorf("%s has %+v", params, l.Tasks[0])
			}
		}
		for _, bad := range []string{`{"pageSize":0}`, `{"pageSize":101}`, `{"pageSize":-1}`, `{"pageToken":"x"}`, `{"status":"done"}`, `{"statusTimestampAfter":"soon"}`, `{"historyLength":-1}`, `{"includeArtifacts":7}`, `{"tenant":"nobody"}`} {
			if reason, text := r.request("ListTasks", bad, ann...).refused(); reason != "INVALID_PARAMS" {
				t.Errorf("%s: %s", bad, text)
			}
		}
		small := start(t, binding, func(c *gateway.Config, _ *gateway.Deps) { c.Limits.PageBytes = 1 })
		for i := range 2 {
			small.request("SendMessage", atOnce(fmt.Sprintf("u%d", i), "Hello", `,"contextId":"mine"`)).task()
		}
		var l list
		if small.request("ListTasks", `{}`).result(&l); len(l.Tasks) != 1 || *l.NextPageToken == "" {
			t.Errorf("a page that is long enough is %+v", l)
		}
	})
}

// What belongs to others is not there, whoever asks, and nothing is said of it.
func TestOthers(t *testing.T) {
	both(t, func(t *testing.T, binding string) {
		r := start(t, binding, withKeys)
		w := r.request("SendMessage", atOnce("u1", "Hello", ""), "Authorization", "Bearer ann").task()
		missing := ""
		for _, who := range []string{"bob", "eve"} {
			key := []string{"Authorization", "Bearer " + who}
			for _, id := range []string{w.ID, "t9-" + w.ContextID, "t1-nothing", "nonsense"} {
				for _, a := range []*answer{
					r.request("GetTask", `{"id":"`+id+`"}`, key...), r.request("CancelTask", `{"id":"`+id+`"}`, key...), r.request("SubscribeToTask", `{"id":"`+id+`"}`, key...),
					r.request("SubscribeToTask", `{"id":"`+id+`"}`, append(key, "Last-Event-ID", "1")...), r.request("SendMessage", says("x", "Stop", `,"taskId":"`+id+`"`), key...),
				} {
					reason, text := a.refused()
					if missing == "" {
						missing = text
					}
					if reason != "TASK_NOT_FOUND" || text != missing {
						t.Errorf("%s is told of %s: %s", who, id, text)
					}
				}
			}
		}
		if got := r.request("GetTask", `{"id":"`+w.ID+`","tenant":"developer"}`, "Authorization", "Bearer ann"); got.StatusCode == 200 && binding == rest {
			t.Error("a task of another agent is there")
		}
		if got := r.request("GetTask", `{"id":"`+w.ID+`"}`, "Authorization", "Bearer ann").task(); got.Status.State != "TASK_STATE_WORKING" || len(got.History) != 1 {
			t.Errorf("in the end it is %+v", got)
		}
	})
}

// Each error has its code, its status and its words, over both bindings.
func TestErrors(t *testing.T) {
	big := strings.Repeat("x", 3<<20)
	both(t, func(t *testing.T, binding string) {
		r := start(t, binding, withKeys, func(c *gateway.Config, _ *gateway.Deps) { c.Limits.TextBytes = 1 << 10 })
		w := r.request("SendMessage", atOnce("u1", "Hello", ""), "Authorization", "Bearer ann").task()
		ended := r.request("SendMessage", atOnce("u2", "Hello", ""), "Authorization", "Bearer ann").task()
		r.request("CancelTask", `{"id":"`+ended.ID+`"}`, "Authorization", "Bearer ann").task()
		lines := []string{}
		told := func(name string, a *answer) {
			body := strings.NewReplacer(w.ID, "t1-W", ended.ID, "t1-E").Replace(a.all())
			lines = append(lines, fmt.Sprintf("%s: %d %s %s", name, a.StatusCode, a.Header.Get("Content-Type"), body))
		}
		ann := []string{"Authorization", "Bearer ann"}
		for _, request := range []struct{ name, method, params string }{
			{"no message", "SendMessage", `{}`},
			{"a message without an id", "SendMessage", `{"message":{"role":"ROLE_USER","parts":[{"text":"x"}]}}`},
			{"a message without parts", "SendMessage", `{"message":{"messageId":"x","role":"ROLE_USER"}}`},
			{"a part that is nothing", "SendMessage", `{"message":{"messageId":"x","parts":[{}]}}`},
			{"a part that is two things", "SendMessage", `{"message":{"messageId":"x","parts":[{"text":"x","data":1}]}}`},
			{"parts that are no list", "SendMessage", `{"message":{"messageId":"x","parts":{"text":"x"}}}`},
			{"a message of an agent", "SendMessage", `{"message":{"messageId":"x","role":"ROLE_AGENT","parts":[{"text":"x"}]}}`},
			{"too many parts", "SendMessage", `{"message":{"messageId":"x","parts":[` + strings.Repeat(`{"text":"x"},`, 100) + `{"text":"x"}]}}`},
			{"a text that is too long", "SendMessage", says("x", strings.Repeat("x", 2<<10), "")},
			{"a text of another type", "SendMessage", strings.Replace(says("x", "x", ""), `"text":`, `"mediaType":"image/png","text":`, 1)},
			{"a value of another type", "SendMessage", `{"message":{"messageId":"x","parts":[{"data":1,"mediaType":"text/csv"}]}}`},
			{"an address", "SendMessage", `{"message":{"messageId":"x","parts":[{"url":"http://127.0.0.1/"}]}}`},
			{"bytes of an unknown type", "SendMessage", `{"message":{"messageId":"x","parts":[{"raw":"dGNr","mediaType":"application/x-unknown"}]}}`},
			{"bytes of no type", "SendMessage", `{"message":{"messageId":"x","parts":[{"raw":"dGNr"}]}}`},
			{"bytes that are none", "SendMessage", `{"message":{"messageId":"x","parts":[{"raw":"%","mediaType":"text/plain"}]}}`},
			{"answers of another type", "SendMessage", strings.TrimSuffix(says("x", "x", ""), "}") + `,"configuration":{"acceptedOutputModes":["image/png"]}}`},
			{"push notifications", "SendMessage", strings.TrimSuffix(says("x", "x", ""), "}") + `,"configuration":{"taskPushNotificationConfig":{"url":"http://127.0.0.1/"}}}`},
			{"an unknown mode", "SendMessage", says("x", "x", `,"metadata":{"parley":{"mode":"shout"}}`)},
			{"an unknown agent", "SendMessage", `{"tenant":"nobody",` + says("x", "x", "")[1:]},
			{"a context that is too long", "SendMessage", says("x", "x", `,"contextId":"`+strings.Repeat("x", 200)+`"`)},
			{"a context of another task", "SendMessage", says("x", "x", `,"contextId":"`+ended.ContextID+`","taskId":"`+w.ID+`"`)},
			{"a context of another agent", "SendMessage", `{"tenant":"developer",` + says("x", "x", `,"contextId":"`+w.ContextID+`"`)[1:]},
			{"the message of another text", "SendMessage", says("u1", "Other", "")},
			{"a task that has ended", "SendMessage", says("x", "x", `,"taskId":"`+ended.ID+`"`)},
			{"a question that is not open", "SendMessage", says("x", "x", `,"taskId":"`+w.ID+`","metadata":{"parley":{"question":"q9"}}`)},
			{"a stream of it", "SendStreamingMessage", says("x", "x", `,"taskId":"`+ended.ID+`"`)},
			{"a task that is not there", "GetTask", `{"id":"t1-nothing"}`},
			{"a history below none", "GetTask", `{"id":"` + w.ID + `","historyLength":-1}`},
			{"a task to cancel that has ended", "CancelTask", `{"id":"` + ended.ID + `"}`},
			{"a task to follow that has ended", "SubscribeToTask", `{"id":"` + ended.ID + `"}`},
			{"the card of an unknown agent", "GetExtendedAgentCard", `{"tenant":"nobody"}`},
		} {
			told(request.name, r.request(request.method, request.params, ann...))
		}
		told("an id of no event", r.request("SubscribeToTask", `{"id":"`+w.ID+`"}`, append(ann, "Last-Event-ID", "x")...))
		told("an id of another session's event", r.request("SubscribeToTask", `{"id":"`+ended.ID+`"}`, append(ann, "Last-Event-ID", "9007199254740991")...))
		told("another version", r.request("GetTask", `{"id":"`+w.ID+`"}`, append(ann, "A2A-Version", "0.3")...))
		told("no key", r.request("GetTask", `{"id":"`+w.ID+`"}`))
		told("no scope", r.request("GetTask", `{"id":"`+w.ID+`"}`, "Authorization", "Bearer ops"))
		if binding == rpc {
			for name, body := range map[string]string{
				"no JSON": `{"jsonrpc"`, "a batch": `[{"jsonrpc":"2.0","id":1,"method":"GetTask"}]`, "no version of JSON-RPC": `{"id":1,"method":"GetTask"}`,
				"no method": `{"jsonrpc":"2.0","id":"a"}`, "an unknown method": `{"jsonrpc":"2.0","id":"a","method":"DropTask"}`, "no id": `{"jsonrpc":"2.0","method":"GetTask"}`,
				"an id that is a list": `{"jsonrpc":"2.0","id":[1],"method":"GetTask"}`, "an id that is too long": `{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 300) + `","method":"GetTask"}`,
				"no task": `{"jsonrpc":"2.0","id":1,"method":"GetTask"}`, "params that are a list": `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":[]}`,
				"a method of before": `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":"x"}}`, "push": `{"jsonrpc":"2.0","id":1,"method":"CreateTaskPushNotificationConfig","params":{}}`,
				"a value that is too deep": `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`,
			} {
				told(name, r.call("POST", "/a2a", body, ann...))
			}
		} else {
			told("an unknown verb", r.call("POST", "/a2a/tasks/"+w.ID+":drop", "", ann...))
			told("no verb", r.call("POST", "/a2a/tasks/"+w.ID, "", ann...))
			told("no JSON", r.call("POST", "/a2a/message:send", `{"message"`, ann...))
			for _, method := range []string{"GET", "POST"} {
				told("push: "+method, r.call(method, "/a2a/tasks/"+w.ID+"/pushNotificationConfigs", "", ann...))
			}
			for _, method := range []string{"GET", "DELETE"} {
				told("push of its own: "+method, r.call(method, "/a2a/developer/tasks/"+w.ID+"/pushNotificationConfigs/p", "", ann...))
			}
		}
		send := map[string]string{rpc: "/a2a", rest: "/a2a/message:send"}[binding]
		told("a body of another type", r.call("POST", send, `{}`, append(ann, "Content-Type", "text/plain")...))
		told("a body that is compressed", r.call("POST", send, `{}`, append(ann, "Content-Encoding", "gzip")...))
		if got := r.call("POST", send, `{"x":"`+big+`"}`, ann...); got.StatusCode != 413 {
			t.Errorf("a body that is too large: %d", got.StatusCode)
		}
		slices.Sort(lines)
		name := map[string]string{rpc: "jsonrpc", rest: "http"}[binding]
		gatewaytest.Golden(t, "errors_"+name+".txt", []byte(strings.Join(lines, "\n")+"\n"))
		if got := r.request("GetTask", `{"id":"`+w.ID+`"}`, ann...).task(); len(got.History) != 1 {
			t.Errorf("what was refused has changed the task: %+v", got)
		}
	})
}

// A request that names no version is taken, as is one of another third number.
func TestVersions(t *testing.T) {
	both(t, func(t *testing.T, binding string) {
		r := start(t, binding)
		for _, version := range []string{"", "1", "1.0", "1.0.7", " 1.0 "} {
			r.request("SendMessage", atOnce("u1", "Hello", ""), "A2A-Version", version).task()
		}
		for _, version := range []string{"0.3", "1.1", "2.0", "x", "."} {
			if reason, text := r.request("SendMessage", atOnce("u1", "Hello", ""), "A2A-Version", version).refused(); reason != "VERSION_NOT_SUPPORTED" {
				t.Errorf("%q: %s", version, text)
			}
		}
	})
}

// The card is for everybody, and names no agents; the extended one does, for those who may.
func TestCards(t *testing.T) {
	both(t, func(t *testing.T, binding string) {
		r := start(t, binding, withKeys)
		a := r.call("GET", "/.well-known/agent-card.json", "").want(200)
		tag := a.Header.Get("ETag")
		public := a.all()
		if tag == "" || !strings.Contains(a.Header.Get("Cache-Control"), "max-age=") || strings.Contains(public, "coordinator") {
			t.Errorf("%v: %s", a.Header, public)
		}
		r.call("GET", "/.well-known/agent-card.json", "", "If-None-Match", tag).want(304)
		r.call("GET", "/a2a/developer/.well-known/agent-card.json", "").want(401)
		var extended, developer json.RawMessage
		r.request("GetExtendedAgentCard", `{}`, "Authorization", "Bearer ann").result(&extended)
		r.request("GetExtendedAgentCard", `{"tenant":"developer"}`, "Authorization", "Bearer ann").result(&developer)
		r.call("GET", "/a2a/nobody/.well-known/agent-card.json", "", "Authorization", "Bearer ann").want(400)
		if got := r.call("GET", "/a2a/developer/.well-known/agent-card.json", "", "Authorization", "Bearer ann").want(200).all(); got != string(developer) {
			t.Errorf("at its address it is %s", got)
		}
		open := start(t, binding, func(_ *gateway.Config, d *gateway.Deps) { d.Files = nil }).call("GET", "/.well-known/agent-card.json", "").want(200).all()
		if strings.Contains(open, "securitySchemes") || strings.Contains(open, "image/png") {
			t.Errorf("without a sign-in and files it is %s", open)
		}
		cards := strings.ReplaceAll(public+"\n"+string(extended)+"\n"+string(developer)+"\n", r.url, "http://parley.example")
		gatewaytest.Golden(t, "cards.txt", []byte(cards))
	})
}

// A tenant names an agent, in a path and in a request.
func TestTenantIsAnAgent(t *testing.T) {
	both(t, func(t *testing.T, binding string) {
		r := start(t, binding)
		w := r.request("SendMessage", `{"tenant":"developer",`+atOnce("u1", "Hello", "")[1:]).task()
		for tenant, want := range map[string]bool{"": true, "developer": true, "coordinator": false} {
			a := r.request("GetTask", `{"id":"`+w.ID+`","tenant":"`+tenant+`"}`)
			if got := !strings.Contains(a.all(), "TASK_NOT_FOUND"); got != want {
				t.Errorf("as a task of %q it is there: %v", tenant, got)
			}
		}
	})
}

// A server that goes away cuts streams off: their end would be the end of the task. The client comes
// back to another one.
func TestDrain(t *testing.T) {
	both(t, func(t *testing.T, binding string) {
		r := start(t, binding)
		a := r.follows("SendStreamingMessage", says("u1", "Hello", ""))
		a.until("TASK_STATE_WORKING")
		ended := make(chan error)
		go func() { ended <- r.stop() }()
		if _, err := a.body.ReadString(0); err == nil || !strings.Contains(err.Error(), "EOF") {
			t.Errorf("the stream ends with %v", err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// Who follows a task whose session is erased is told that it is not there.
func TestErased(t *testing.T) {
	both(t, func(t *testing.T, binding string) {
		r := start(t, binding)
		a := r.follows("SendStreamingMessage", says("u1", "Hello", ""))
		told := a.until("TASK_STATE_WORKING")
		session := a2a.Read(told).Context
		r.call("DELETE", "/api/sessions/"+session, "").want(204)
		if rest := a.all(); !strings.Contains(rest, "TASK_NOT_FOUND") || (binding == "HTTP+JSON") != strings.Contains(rest, "event: error\n") {
			t.Errorf("it is told %s", rest)
		}
	})
}

// Nor is it there for who waits for it.
func TestErasedWhileOneWaits(t *testing.T) {
	both(t, func(t *testing.T, binding string) {
		r := start(t, binding, func(c *gateway.Config, _ *gateway.Deps) { c.Limits.WaitsPerAddress = 1 })
		answers := make(chan *answer)
		for range 2 { // of two that would wait, one does
			go func() { answers <- r.request("SendMessage", says("u1", "Hello", "")) }()
		}
		w := (<-answers).task()
		r.call("DELETE", "/api/sessions/"+w.Metadata.Parley.Session, "").want(204)
		if reason, text := (<-answers).refused(); reason != "TASK_NOT_FOUND" {
			t.Errorf("it is told %s", text)
		}
	})
}
