package uistream_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/machine/machinetest"
	"parley/gateway"
	"parley/gateway/uistream"
)

// A message opens the chat, is stored before anything is told of it, and is told as it is worked
// on. Said again it takes effect once, and is told again.
func TestSay(t *testing.T) {
	r := begin(t)
	body := says("c1", "u1", "Hello", "")
	a := r.call("POST", "/api/ui/chat", body).want(200)
	if got := a.Header.Get("X-Vercel-Ai-Ui-Message-Stream"); got != "v1" || a.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("headers %v", a.Header)
	}
	first := a.until("start-step")
	key := r.key("c1")
	r.sessions.Show(key, conversation.Delta{Task: task(key, 1), Draft: "1.1.0", Text: "Good"})
	first += a.until("text-delta")
	r.model(key, text("Good day"))
	first += a.all()
	if !strings.HasSuffix(first, "data: [DONE]\n\n") || !strings.Contains(uistream.Rebuilt([]byte(first)), `"text":"Good day"`) {
		t.Errorf("it told\n%s", first)
	}
	again := r.call("POST", "/api/ui/chat", body).want(200).all()
	if got, want := uistream.Rebuilt([]byte(again)), uistream.Rebuilt([]byte(first)); got != want {
		t.Errorf("again it is\n%s\nand was\n%s", got, want)
	}
	told, _ := r.page("/api/ui/chat/c1")
	if want := []string{"u u1 Hello", "a a-t1-" + string(key.Session) + " Good day"}; !slices.Equal(told, want) {
		t.Errorf("loaded again it is %q, want %q", told, want)
	}
	if byID, _ := r.page("/api/ui/chat/" + string(key.Session)); !slices.Equal(byID, told) {
		t.Errorf("by the session's id it is %q", byID)
	}
}

// task is the n-th task of a session.
func task(key conversation.SessionKey, n int) conversation.TaskID {
	return conversation.TaskID(fmt.Sprintf("t%d-%s", n, key.Session))
}

// ids are the ids of the events of a stream, with where each event ends.
func ids(stream string) (all []string, ends []int) {
	at := 0
	for event := range strings.SplitAfterSeq(stream, "\n\n") {
		at += len(event)
		if id, is := strings.CutPrefix(event, "id: "); is {
			id, _, _ = strings.Cut(id, "\n")
			all, ends = append(all, id), append(ends, at)
		}
	}
	return all, ends
}

// A client that is cut off at any event and comes back later with the last id that it has seen has
// the same message as one that was there all the time. Without an id it is told all again.
func TestResumeAtEachEvent(t *testing.T) {
	r := begin(t)
	a := r.call("POST", "/api/ui/chat", says("c1", "u1", "Hello", "")).want(200)
	told := a.until("start-step")
	key := r.key("c1")
	show := func(draft conversation.DraftID, at int, text string) {
		r.sessions.Show(key, conversation.Delta{Task: task(key, 1), Draft: draft, At: at, Text: text})
		told += a.until("text-delta")
	}
	show("1.1.0", 0, "Let me ")
	show("1.1.0", 7, "sée. ")
	r.model(key, text("Let me sée. Yes."), call("clock", `{}`))
	told += a.until("tool-input-available")
	r.sessions.Play(func(w *machinetest.World) { w.Session(key).Return("c1", "12:30", time.Second) })
	told += a.until("start-step")
	show("2.1.0", 0, "It")
	r.sessions.Show(key, conversation.DraftDropped{Task: task(key, 1), Draft: "2.1.0"})
	told += a.until("reset-step")
	r.model(key, call(conversation.ToolAsk, `{"question":"Sure?","blocking":false}`))
	told += a.until("data-question")
	show("3.1.0", 0, "It is ")
	r.model(key, text("It is 12:30"))
	told += a.all()

	whole := uistream.Rebuilt([]byte(told))
	for _, want := range []string{"Let me sée. Yes.", "It is 12:30", "data-question"} {
		if !strings.Contains(whole, want) {
			t.Errorf("%s is missing in %s", want, whole)
		}
	}
	path := "/api/ui/chat/c1/stream?message=a-" + string(task(key, 1))
	if again := uistream.Rebuilt([]byte(r.call("GET", path, "").want(200).all())); again != whole {
		t.Errorf("told again it is\n%s\nand was\n%s", again, whole)
	}
	all, ends := ids(told)
	if len(all) < 20 {
		t.Fatalf("only %d events", len(all))
	}
	for i, id := range all {
		rest := r.call("GET", path, "", "Last-Event-ID", id).want(200).all()
		if got := uistream.Rebuilt([]byte(told[:ends[i]]), []byte(rest)); got != whole {
			t.Fatalf("cut off behind %s it is\n%s\nand was\n%s\nthe rest:\n%s", id, got, whole, rest)
		}
	}
}

// Two tabs, of which one comes in the middle of a text, have the same message in the end; so has
// one that was cut off there and comes back with its last id.
func TestInTheMiddleOfAText(t *testing.T) {
	r := begin(t)
	one := r.call("POST", "/api/ui/chat", says("c1", "u1", "Hello", "")).want(200)
	told := one.until("start-step")
	key := r.key("c1")
	r.sessions.Show(key, conversation.Delta{Task: task(key, 1), Draft: "1.1.0", Text: "Good "})
	told += one.until("text-delta")
	cut := told
	r.sessions.Show(key, conversation.Delta{Task: task(key, 1), Draft: "1.1.0", At: 5, Text: "mor"})
	told += one.until("text-delta")
	r.sessions.Drafts(key, conversation.DraftView{Task: task(key, 1), Draft: "1.1.0", Text: "Good mor"})
	two := r.call("GET", "/api/ui/chat/c1/stream", "").want(200)
	second := two.until(`"delta":"Good mor"`)
	all, _ := ids(cut)
	three := r.call("GET", "/api/ui/chat/c1/stream", "", "Last-Event-ID", all[len(all)-1]).want(200)
	third := three.until(`"delta":"mor"`)
	if strings.Contains(third, "start") {
		t.Errorf("it begins anew: %s", third)
	}
	r.sessions.Drafts(key)
	r.model(key, text("Good morning"))
	told += one.all()
	second += two.all()
	third += three.all()
	want := uistream.Rebuilt([]byte(told))
	if got := uistream.Rebuilt([]byte(second)); got != want || !strings.Contains(want, "Good morning") {
		t.Errorf("the second tab has\n%s\nand the first\n%s", got, want)
	}
	if got := uistream.Rebuilt([]byte(cut), []byte(third)); got != want {
		t.Errorf("cut off it is\n%s\nand was\n%s", got, want)
	}
	r.call("GET", "/api/ui/chat/c1/stream", "").want(204) // the clock of the engine is far behind: it is long ago
}

// An id that is not of the message, also one of a longer log, has it told from its beginning, while it is worked on
// and when it has ended.
func TestResumeBehindWhatIsNotThere(t *testing.T) {
	r := begin(t)
	a := r.call("POST", "/api/ui/chat", says("c1", "u1", "Hello", "")).want(200)
	told := a.until("start-step")
	key := r.key("c1")
	all, _ := ids(told)
	n, err := strconv.ParseUint(all[len(all)-1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	beyond := strconv.FormatUint(n*1000, 10)
	b := r.call("GET", "/api/ui/chat/c1/stream", "", "Last-Event-ID", beyond).want(200)
	again := b.until("start-step")
	r.model(key, text("Good day"))
	told += a.all()
	again += b.all()
	path := "/api/ui/chat/c1/stream?message=a-" + string(task(key, 1))
	for _, got := range []string{again, r.call("GET", path, "", "Last-Event-ID", beyond).want(200).all()} {
		if uistream.Rebuilt([]byte(got)) != uistream.Rebuilt([]byte(told)) || !strings.Contains(got, `"type":"start"`) {
			t.Errorf("it told\n%s\nand before\n%s", got, told)
		}
	}
}

// A client that was cut off at the end of an answer does not say so when it comes back: it is told the
// message that has ended last, for a while. It is not told to run a tool again.
func TestEndedALittleAgo(t *testing.T) {
	r := begin(t)
	a := r.call("POST", "/api/ui/chat", says("c1", "u1", "Weather?", weather)).want(200)
	a.until("start-step")
	key := r.key("c1")
	r.sessions.Play(func(w *machinetest.World) { w.Now = time.Now() })
	r.model(key, call("get_weather", `{}`))
	a.all()
	waiting := r.call("GET", "/api/ui/chat/c1/stream", "").want(200).all()
	if !strings.Contains(waiting, "tool-input-available") {
		t.Errorf("it waits, and tells %s", waiting)
	}
	b := r.call("POST", "/api/ui/chat", `{"id":"c1","messages":[{"id":"a-`+string(task(key, 1))+`","role":"assistant","parts":[{"type":"tool-get_weather","toolCallId":"c1","state":"output-available","output":"rain"}]}]}`).want(200)
	b.until(`"output":"rain"`)
	r.model(key, text("Rain"))
	b.all()
	told := r.call("GET", "/api/ui/chat/c1/stream", "").want(200).all()
	var page struct{ Messages []json.RawMessage }
	if err := json.Unmarshal([]byte(r.call("GET", "/api/ui/chat/c1", "").all()), &page); err != nil {
		t.Fatal(err)
	}
	if got := uistream.Rebuilt([]byte(told)); got != string(page.Messages[1]) || strings.Contains(told, "tool-input-available") {
		t.Errorf("it is told as\n%s\nand loaded as\n%s", told, page.Messages[1])
	}
}

// A chat that is not there, of others too, has nothing to resume: a page asks before it has said anything.
func TestNothingToResume(t *testing.T) {
	r := begin(t, withKeys)
	r.sessions.Open("s1", "ann")
	for _, who := range []string{"ann", "bob", "eve"} {
		for _, chat := range []string{"s1", "none", "%F0%9F%90%B1"} {
			r.call("GET", "/api/ui/chat/"+chat+"/stream", "", "Authorization", "Bearer "+who).want(204)
		}
	}
}

// What is said next answers the question that the chat waits for; with an id of its own a button does. The message
// that has asked goes on.
func TestAnswers(t *testing.T) {
	r := begin(t)
	a := r.call("POST", "/api/ui/chat", says("c1", "u1", "Book a table", "")).want(200)
	a.until("start-step")
	key := r.key("c1")
	ask := func(text string) { r.model(key, call(conversation.ToolAsk, `{"question":"`+text+`"}`)) }
	ask("For how many?")
	told := a.all()
	if !strings.Contains(told, `"finishReason":"other"`) || !strings.Contains(told, `"status":"AWAITING_RESPONSE"`) {
		t.Fatalf("it waits, and told %s", told)
	}
	// by a message
	b := r.call("POST", "/api/ui/chat", says("c1", "u2", "two", "")).want(200)
	told = b.until(`"status":"RUNNING"`)
	ask("When?")
	if told += b.all(); !strings.Contains(uistream.Rebuilt([]byte(told)), `"answer":"two"`) || !strings.Contains(told, `"messageId":"a-`+string(task(key, 1))) {
		t.Errorf("answered, it told %s", told)
	}
	// by a button
	message := `{"id":"a-` + string(task(key, 1)) + `","role":"assistant","parts":[]}`
	button := `{"id":"c1","messages":[` + message + `],"trigger":"submit-message","messageId":"a-` + string(task(key, 1)) + `","answer":{"question":"q2","text":"at eight"}}`
	c := r.call("POST", "/api/ui/chat", button).want(200)
	told = c.until(`"status":"RUNNING"`)
	r.model(key, text("Booked"))
	if told += c.all(); strings.Contains(told, "For how many?") || !strings.Contains(told, `"answer":"at eight"`) || !strings.Contains(told, "Booked") {
		t.Errorf("it does not go on with what is new: %s", told)
	}
	// a repetition is told the same
	if again := r.call("POST", "/api/ui/chat", button).want(200).all(); again != told {
		t.Errorf("again it is told\n%s\nand was\n%s", again, told)
	}
	r.call("POST", "/api/ui/chat", strings.Replace(button, "at eight", "at nine", 1)).want(409)
	page, _ := r.page("/api/ui/chat/c1")
	if want := []string{"u u1 Book a table", "a a-" + string(task(key, 1)) + " For how many?When?Booked", "u u2 two"}; !slices.Equal(page, want) {
		t.Errorf("loaded again it is %q, want %q", page, want)
	}
	// with a mode, a message is what it says
	r.call("POST", "/api/ui/chat", says("c1", "u3", "One more", "")).until("start-step")
	ask("Where?")
	d := r.call("POST", "/api/ui/chat", says("c1", "u4", "Something else", `"mode":"queue",`)).want(200)
	if told := d.until("start-step"); !strings.Contains(told, string(task(key, 3))) {
		t.Errorf("it is not a task of its own: %s", told)
	}
}

const weather = `"tools":[{"name":"get_weather","parameters":{"type":"object"}}],`

// The tools that a client brings are offered; what its messages say of their calls are results, each
// taken once. Other tools are offered when it brings others.
func TestToolsOfTheClient(t *testing.T) {
	r := begin(t)
	a := r.call("POST", "/api/ui/chat", says("c1", "u1", "Weather?", weather)).want(200)
	a.until("start-step")
	key := r.key("c1")
	r.model(key, call("get_weather", `{"city":"Oslo"}`), call("get_weather", `{"city":"Rome"}`))
	if told := a.all(); !strings.Contains(told, `{"type":"tool-input-available","toolCallId":"c1","toolName":"get_weather","input":{"city":"Oslo"}}`) || strings.Count(told, "tool-input-available") != 2 || !strings.Contains(told, `"finishReason":"tool-calls"`) {
		t.Fatalf("it told %s", told)
	}
	part := func(call, output string) string {
		return `{"type":"tool-get_weather","toolCallId":"` + call + `","state":"output-available","input":{},"output":` + output + `}`
	}
	sends := func(parts ...string) string {
		return `{` + weather + `"id":"c1","trigger":"submit-message","messageId":"a-` + string(task(key, 1)) + `","messages":[{"id":"u1","role":"user","parts":[]},{"id":"a-` +
			string(task(key, 1)) + `","role":"assistant","parts":[{"type":"step-start"},` + strings.Join(parts, ",") + `]}]}`
	}
	waits := `{"type":"tool-get_weather","toolCallId":"c2","state":"input-available","input":{}}`
	b := r.call("POST", "/api/ui/chat", sends(part("c1", `{"sky": "blue"}`), waits)).want(200)
	if told := b.all(); !strings.Contains(told, `"toolCallId":"c1","output":{"sky":"blue"}`) || strings.Contains(told, `"toolCallId":"c2"`) {
		t.Errorf("of one result it told %s", told)
	}
	both := sends(part("c1", `{"sky": "blue"}`), part("c2", `"rain"`))
	c := r.call("POST", "/api/ui/chat", both).want(200)
	told := c.until(`"status":"RUNNING"`)
	var results []string
	r.sessions.Play(func(w *machinetest.World) {
		for _, e := range w.Session(key).Events() {
			if f, is := e.Body.(conversation.ToolFinished); is {
				results = append(results, f.Summary)
			}
		}
	})
	if want := []string{`{"sky":"blue"}`, "rain"}; !slices.Equal(results, want) {
		t.Errorf("the results are %q, want %q", results, want)
	}
	r.model(key, text("Fine"))
	told += c.all()
	if again := r.call("POST", "/api/ui/chat", both).want(200).all(); uistream.Rebuilt([]byte(again)) != uistream.Rebuilt([]byte(told)) {
		t.Errorf("again it is told\n%s\nand was\n%s", again, told)
	}
	// What was answered, and other words than that, answer nothing.
	r.call("POST", "/api/ui/chat", sends(`{"type":"step-start"}`, `{"type":"text","text":"Fine"}`)).want(400)
	policies := func() (n int) {
		r.sessions.Play(func(w *machinetest.World) {
			for _, e := range w.Session(key).Events() {
				if _, is := e.Body.(conversation.SessionUpdated); is {
					n++
				}
			}
		})
		return n
	}
	if n := policies(); n != 0 {
		t.Errorf("the same tools have changed the policy %d times", n)
	}
	r.call("POST", "/api/ui/chat", says("c1", "u2", "And?", `"tools":[{"name":"other"}],`)).want(200).until("start-step")
	if n := policies(); n != 1 {
		t.Errorf("other tools have changed the policy %d times", n)
	}
	r.call("POST", "/api/ui/chat", says("c1", "u3", "And?", `"tools":[{"name":"no good name"}],`)).want(400)
}

// What happens after the stream has ended, because the client's tool is waited for, is told when
// the message goes on; what the client has loaded meanwhile is not told twice.
func TestMeanwhile(t *testing.T) {
	r := begin(t)
	a := r.call("POST", "/api/ui/chat", says("c1", "u1", "Go", weather)).want(200)
	told := a.until("start-step")
	key := r.key("c1")
	r.model(key, call("clock", `{}`), call("get_weather", `{}`))
	told += a.all()
	r.sessions.Play(func(w *machinetest.World) { w.Session(key).Return("c1", "12:30", time.Second) })
	loaded := r.call("GET", "/api/ui/chat/c1", "").want(200).all()
	b := r.call("POST", "/api/ui/chat", `{"id":"c1","messages":[{"id":"a-`+string(task(key, 1))+`","role":"assistant","parts":[{"type":"step-start"},`+
		`{"type":"dynamic-tool","toolCallId":"c1","toolName":"clock","state":"input-available","providerExecuted":true},`+
		`{"type":"tool-get_weather","toolCallId":"c2","state":"output-available","output":"rain"}]}]}`).want(200)
	rest := b.until(`"output":"rain"`)
	r.model(key, text("Done"))
	rest += b.all()
	if strings.Contains(rest, "tool-input") {
		t.Errorf("it is told again: %s", rest)
	}
	var page struct{ Messages []json.RawMessage }
	if err := json.Unmarshal([]byte(r.call("GET", "/api/ui/chat/c1", "").all()), &page); err != nil || len(page.Messages) != 2 {
		t.Fatal(err, page.Messages)
	}
	if got := uistream.Rebuilt([]byte(told), []byte(rest)); got != string(page.Messages[1]) || !strings.Contains(got, `"output":"12:30"`) {
		t.Errorf("it is\n%s\nand loaded again\n%s", got, page.Messages[1])
	}
	if !strings.Contains(loaded, `"output":"12:30"`) {
		t.Errorf("loaded meanwhile it was %s", loaded)
	}
}

// A call that must be allowed is answered by the part of its tool.
func TestApprovals(t *testing.T) {
	r := begin(t)
	r.sessions.Play(func(w *machinetest.World) {
		rule := w.Rules.Tools["clock"]
		rule.Spec.Approval = true
		w.Rules.Tools["clock"] = rule
	})
	a := r.call("POST", "/api/ui/chat", says("c1", "u1", "Time?", "")).want(200)
	a.until("start-step")
	key := r.key("c1")
	r.model(key, call("clock", `{}`), call("clock", `{}`))
	if told := a.all(); !strings.Contains(told, `{"type":"tool-approval-request","approvalId":"q1","toolCallId":"c1"}`) || !strings.Contains(told, `"finishReason":"tool-calls"`) {
		t.Fatalf("it told %s", told)
	}
	part := func(n string, yes bool) string {
		return `{"type":"dynamic-tool","toolName":"clock","toolCallId":"c` + n + `","state":"approval-responded","providerExecuted":true,"approval":{"id":"q` + n + `","approved":` + fmt.Sprint(yes) + `}}`
	}
	b := r.call("POST", "/api/ui/chat", `{"id":"c1","messages":[{"id":"a-`+string(task(key, 1))+`","role":"assistant","parts":[{"type":"step-start"},`+part("1", true)+`,`+part("2", false)+`]}]}`).want(200)
	told := b.until("tool-output-denied")
	r.sessions.Play(func(w *machinetest.World) { w.Session(key).Return("c1", "12:30", time.Second) })
	told += b.until("tool-output-available")
	r.model(key, text("Half past twelve"))
	if told += b.all(); !strings.Contains(told, `"approvalId":"q1","approved":true`) || !strings.Contains(told, `"output":"12:30"`) || !strings.Contains(told, "Half past") {
		t.Errorf("it told %s", told)
	}
}

// A message that steers belongs to the task that runs: it is told with that task's message.
func TestSteer(t *testing.T) {
	r := begin(t)
	a := r.call("POST", "/api/ui/chat", says("c1", "u1", "One", "")).want(200)
	a.until("start-step")
	key := r.key("c1")
	b := r.call("POST", "/api/ui/chat", says("c1", "u2", "Two", `"mode":"steer",`)).want(200)
	b.until("start-step")
	r.model(key, text("First"))
	r.model(key, text("Second"))
	one, two := a.all(), b.all()
	if !strings.Contains(one, `{"type":"steering-message","id":"u2","parts":[{"type":"text","text":"Two"}]}`) || !strings.Contains(two, "Second") {
		t.Errorf("they told\n%s\n%s", one, two)
	}
}

// Only a stop ends the work: not a client that goes away.
func TestStop(t *testing.T) {
	r := begin(t)
	a := r.call("POST", "/api/ui/chat", says("c1", "u1", "One", "")).want(200)
	a.until("start-step")
	key := r.key("c1")
	a.end()
	b := r.call("GET", "/api/ui/chat/c1/stream", "").want(200)
	b.until("start-step")
	if got := r.call("POST", "/api/ui/chat/c1/stop", `{"reason":"enough"}`).want(202).all(); got != `{"messageId":"a-`+string(task(key, 1))+`","task":"`+string(task(key, 1))+`","status":"RUNNING"}` {
		t.Errorf("answered with %s", got)
	}
	if told := b.all(); !strings.Contains(told, `{"type":"abort","reason":"enough"}`) || !strings.Contains(told, `"finishReason":"interrupted"`) {
		t.Errorf("it told %s", told)
	}
	r.call("POST", "/api/ui/chat/c1/stop", "").want(204)
	r.call("POST", "/api/ui/chat/c1/stop", `{"messageId":"a-`+string(task(key, 1))+`"}`).want(202)
	r.call("POST", "/api/ui/chat/c1/stop", `{"messageId":"a-t9-`+string(key.Session)+`"}`).want(404)
	r.call("POST", "/api/ui/chat/c1/stop", `{"messageId":"a-t1-other"}`).want(404)
	r.call("POST", "/api/ui/chat/none/stop", "").want(404)
}

// Of what the machine has no word for becomes another message: one that is said again, and one
// that is changed. Each takes effect once.
func TestSaidAgain(t *testing.T) {
	r := begin(t)
	key, n := conversation.SessionKey{}, 0
	say := func(body string) string {
		a := r.call("POST", "/api/ui/chat", body).want(200)
		told := a.until("start-step")
		if n++; key.Session == "" {
			key = r.key("c1")
		}
		r.model(key, text(fmt.Sprint("Answer ", n)))
		return told + a.all()
	}
	say(says("c1", "u1", "One", ""))
	again := strings.Replace(says("c1", "u1", "One", ""), "submit-message", "regenerate-message", 1)
	if told := say(again); !strings.Contains(told, string(task(key, 2))) {
		t.Errorf("said again, it is told as %s", told)
	}
	named := strings.Replace(again, `"id":"c1"`, `"messageId":"a-`+string(task(key, 2))+`","id":"c1"`, 1)
	say(named)
	if told := r.call("POST", "/api/ui/chat", named).want(200).all(); !strings.Contains(told, "Answer 3") {
		t.Errorf("repeated, it is told as %s", told)
	}
	changed := says("c1", "u1", "Another", `"messageId":"u1",`)
	say(changed)
	if told := r.call("POST", "/api/ui/chat", changed).want(200).all(); !strings.Contains(told, "Answer 4") {
		t.Errorf("repeated, it is told as %s", told)
	}
	r.call("POST", "/api/ui/chat", says("c1", "u1", "Another", "")).want(409)
	told, _ := r.page("/api/ui/chat/c1")
	for i, m := range told {
		told[i] = regexp.MustCompile(` \S+`).ReplaceAllString(m, "")
	}
	if len(told) != 8 {
		t.Errorf("the log has %q", told)
	}
}

// Files come with a message, or were uploaded before.
func TestFiles(t *testing.T) {
	r := begin(t)
	body := func(url string) string {
		return `{"id":"c1","messages":[{"id":"u1","role":"user","parts":[{"type":"file","mediaType":"image/png","filename":"dot.png","url":"` + url + `"}]}]}`
	}
	const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	r.call("POST", "/api/ui/chat", body("data:image/png;base64,"+png)).want(200).until("start-step")
	page := r.call("GET", "/api/ui/chat/c1", "").want(200).all()
	url := regexp.MustCompile(`/api/blobs/[0-9a-f]{64}\?session=\w+`).FindString(page)
	if !strings.Contains(page, `"mediaType":"image/png","filename":"dot.png"`) || url == "" {
		t.Fatalf("loaded again it is %s", page)
	}
	if got := r.call("GET", url, "").want(200).Header.Get("Content-Type"); got != "image/png" {
		t.Errorf("the file is %s", got)
	}
	r.call("POST", "/api/ui/chat", strings.Replace(body(url), `"u1"`, `"u2"`, 1)).want(200).until("start")
	for what, bad := range map[string]string{
		"of elsewhere": "https://example.org/a.png", "no base64": "data:image/png,xx", "broken base64": "data:image/png;base64,%%", "empty": "data:;base64,",
		"no hash": "/api/blobs/xx", "another type": "data:image/png;base64,aGVsbG8gdGhlcmUsIHRoaXMgaXMgdGV4dA==", "none": "",
	} {
		if a := r.call("POST", "/api/ui/chat", strings.Replace(body(bad), `"u1"`, `"u3"`, 1)); a.StatusCode/100 != 4 {
			t.Errorf("%s: %d", what, a.StatusCode)
		}
	}
}

// Pages go back through a chat, each message on one of them, whatever a page may hold.
func TestPages(t *testing.T) {
	r := begin(t, func(c *gateway.Config, _ *gateway.Deps) { c.Limits.PageBytes = 2000 })
	var key conversation.SessionKey
	for i := range 9 {
		a := r.call("POST", "/api/ui/chat", says("c1", fmt.Sprint("u", i), fmt.Sprint("Say ", i), "")).want(200)
		a.until("start-step")
		if i == 0 {
			key = r.key("c1")
		}
		r.model(key, text(fmt.Sprint("Said ", i)))
		a.all()
	}
	want, _ := r.page("/api/ui/chat/c1?limit=200")
	for limit := 1; limit < 4; limit++ {
		var all []string
		for before, pages := "", 0; ; pages++ {
			told, previous := r.page(fmt.Sprintf("/api/ui/chat/c1?limit=%d%s", limit, before))
			all = append(told, all...)
			if previous == "" {
				break
			}
			if before = "&before=" + previous; pages > 20 {
				t.Fatal("it does not end")
			}
		}
		if len(all) != 18 || !slices.Equal(all[len(all)-len(want):], want) {
			t.Errorf("limit %d: %q, want the end %q", limit, all, want)
		}
		for i := range 9 {
			if !strings.HasSuffix(all[2*i], fmt.Sprint("Say ", i)) || !strings.HasSuffix(all[2*i+1], fmt.Sprint("Said ", i)) {
				t.Errorf("limit %d: %q", limit, all)
			}
		}
	}
	for _, bad := range []string{"limit=0", "limit=x", "before=0", "before=x", "before=0.1.t1-x", "before=9.x"} {
		r.call("GET", "/api/ui/chat/c1?"+bad, "").want(400)
	}
}

// counted counts the rows of tasks that are read.
type counted struct {
	engine
	rows atomic.Int64
}

type engine = gateway.Sessions

func (c *counted) Tasks(ctx context.Context, f conversation.TaskFilter) iter.Seq2[conversation.TaskRow, error] {
	return func(yield func(conversation.TaskRow, error) bool) {
		for row, err := range c.engine.Tasks(ctx, f) {
			if c.rows.Add(1); !yield(row, err) {
				return
			}
		}
	}
}

// A page reads the tasks that it shows, and one more: not those of the pages behind it.
func TestPagesReadOnce(t *testing.T) {
	c := &counted{}
	r := begin(t, func(_ *gateway.Config, d *gateway.Deps) { c.engine, d.Sessions = d.Sessions, c })
	var key conversation.SessionKey
	for i := range 12 {
		a := r.call("POST", "/api/ui/chat", says("c1", fmt.Sprint("u", i), "Say", "")).want(200)
		a.until("start-step")
		if i == 0 {
			key = r.key("c1")
		}
		r.model(key, text("Said"))
		a.all()
	}
	messages := 0
	for previous, before := "", ""; ; before = "&before=" + previous {
		c.rows.Store(0)
		var told []string
		told, previous = r.page("/api/ui/chat/c1?limit=3" + before)
		if messages += len(told); c.rows.Load() > 4 {
			t.Errorf("a page of 3 tasks%s reads %d", before, c.rows.Load())
		}
		if previous == "" {
			break
		}
	}
	if messages != 24 {
		t.Errorf("the pages have %d messages", messages)
	}
}

// Arguments and results of our tools are only for who may see them; the client's own call is for the client.
func TestRedacted(t *testing.T) {
	r := begin(t, withKeys)
	low := []string{"Authorization", "Bearer low"}
	a := r.call("POST", "/api/ui/chat", says("c1", "u1", "Go", weather), low...).want(200)
	a.until("start-step")
	key := r.key("c1", low...)
	r.model(key, call("clock", `{"secret":1}`), call("get_weather", `{"city":"Oslo"}`))
	told := a.all()
	r.sessions.Play(func(w *machinetest.World) { w.Session(key).Return("c1", "secret", time.Second) })
	told += r.call("GET", "/api/ui/chat/c1", "", low...).want(200).all()
	if strings.Contains(told, "secret") || !strings.Contains(told, "Oslo") {
		t.Errorf("it told %s", told)
	}
}

// A refusal is a sentence for people, with its code in a header; what is refused leaves nothing behind.
func TestRefusals(t *testing.T) {
	r := begin(t, withKeys, func(c *gateway.Config, _ *gateway.Deps) {
		c.Limits.TextBytes, c.Limits.BodyBytes, c.Limits.StreamsPerUser = 100, 4000, 2
	})
	r.sessions.Open("s1", "bob")
	hello := says("c1", "u1", "Hello", "")
	user := func(parts string) string {
		return `{"id":"c2","messages":[{"id":"u1","role":"user","parts":[` + parts + `]}]}`
	}
	for _, x := range []struct {
		name, who, method, path, body string
		status                        int
		code                          conversation.Code
	}{
		{"nobody", "", "POST", "", hello, 401, "unauthenticated"},
		{"without the scope", "ops", "POST", "", hello, 403, "forbidden"},
		{"no body", "ann", "POST", "", "", 400, "invalid_json"},
		{"no JSON", "ann", "POST", "", "{", 400, "invalid_json"},
		{"no object", "ann", "POST", "", "[]", 400, "bad_request"},
		{"wrong type", "ann", "POST", "", `{"id":1}`, 400, "bad_request"},
		{"no id", "ann", "POST", "", `{"messages":[]}`, 400, "bad_request"},
		{"long id", "ann", "POST", "", says(strings.Repeat("x", 129), "u1", "Hello", ""), 400, "bad_request"},
		{"no messages", "ann", "POST", "", `{"id":"c2"}`, 400, "bad_request"},
		{"a message that is none", "ann", "POST", "", `{"id":"c2","messages":["x"]}`, 400, "bad_request"},
		{"of the system", "ann", "POST", "", `{"id":"c2","messages":[{"role":"system","parts":[]}]}`, 400, "bad_request"},
		{"unknown trigger", "ann", "POST", "", strings.Replace(hello, "submit-message", "resume-stream", 1), 400, "bad_request"},
		{"unknown mode", "ann", "POST", "", says("c2", "u1", "Hello", `"mode":"x",`), 400, "bad_request"},
		{"unknown agent", "ann", "POST", "", says("c2", "u1", "Hello", `"agent":"x",`), 400, "bad_request"},
		{"blank", "ann", "POST", "", says("c2", "u1", "  ", ""), 400, "bad_request"},
		{"no parts", "ann", "POST", "", user(""), 400, "bad_request"},
		{"too long", "ann", "POST", "", says("c2", "u1", strings.Repeat("x", 101), ""), 413, "too_large"},
		{"wrong tools", "ann", "POST", "", says("c2", "u1", "Hello", `"tools":{},`), 400, "bad_request"},
		{"answer without question", "ann", "POST", "", says("c2", "u1", "Hello", `"answer":{},`), 400, "bad_request"},
		{"answer to nothing", "ann", "POST", "", says("mine", "u9", "Hello", `"answer":{"question":"q7"},`), 404, "not_found"},
		{"answer in a chat that is not there", "ann", "POST", "", says("c2", "u9", "Hello", `"answer":{"question":"q7"},`), 404, "not_found"},
		{"of a chat that is not there", "ann", "POST", "", `{"id":"c2","messages":[{"id":"a-t1-c2","role":"assistant","parts":[]}]}`, 404, "not_found"},
		{"regenerate what the assistant said", "ann", "POST", "", `{"id":"c2","trigger":"regenerate-message","messages":[{"role":"assistant","parts":[]}]}`, 400, "bad_request"},
		{"another's session", "ann", "GET", "/s1", "", 404, "not_found"},
		{"another's session, stop", "ann", "POST", "/s1/stop", "", 404, "not_found"},
		{"another's session, resume its message", "ann", "GET", "/s1/stream?message=a-t1-s1", "", 404, "not_found"},
		{"another tenant's", "eve", "GET", "/s1", "", 404, "not_found"},
		{"none", "ann", "GET", "/none", "", 404, "not_found"},
		{"a message that is not there", "bob", "GET", "/s1/stream?message=a-t1-s1", "", 404, "not_found"},
		{"a message of none", "bob", "GET", "/s1/stream?message=x", "", 404, "not_found"},
		{"a long reason", "bob", "POST", "/s1/stop", `{"reason":"` + strings.Repeat("x", 600) + `"}`, 400, "bad_request"},
		{"stop what is none", "bob", "POST", "/s1/stop", `{"messageId":7}`, 400, "bad_request"},
	} {
		t.Run(x.name, func(t *testing.T) {
			if x.name == "answer to nothing" {
				b := r.call("POST", "/api/ui/chat", says("mine", "u1", "Hello", ""), "Authorization", "Bearer ann").want(200)
				b.until("start-step")
				b.end()
			}
			a := r.call(x.method, "/api/ui/chat"+x.path, x.body, "Authorization", "Bearer "+x.who)
			sentence := a.want(x.status).all()
			if got := a.Header.Get("X-Parley-Code"); got != string(x.code) || a.Header.Get("Content-Type") != "text/plain; charset=utf-8" || strings.ContainsAny(sentence, "{}") || sentence == "" {
				t.Errorf("%s %q: %s", got, a.Header.Get("Content-Type"), sentence)
			}
		})
	}
	r.call("GET", "/api/ui/chat/c2", "", "Authorization", "Bearer ann").want(404)
	r.call("POST", "/api/ui/chat", says("c1", "u1", "Hello", ""), "Authorization", "Bearer ann", "Content-Type", "text/plain").want(415)
	r.call("POST", "/api/ui/chat", says("c1", "u1", strings.Repeat("x", 5000), ""), "Authorization", "Bearer ann").want(413)
	if r.call("POST", "/api/ui/chat", hello).Header.Get("WWW-Authenticate") != "Bearer" {
		t.Error("it does not say how to sign in")
	}
	// No more streams than limits.streams_per_user, and one that was refused has said nothing.
	for i := range 2 {
		r.call("POST", "/api/ui/chat", says("c3", fmt.Sprint("u", i), "Hello", ""), "Authorization", "Bearer bob").want(200).until("start")
	}
	if a := r.call("POST", "/api/ui/chat", says("c3", "u3", "Hello", ""), "Authorization", "Bearer bob").want(429); a.Header.Get("Retry-After") == "" {
		t.Error("it does not say when to come back")
	}
	if told, _ := r.page("/api/ui/chat/c3", "Authorization", "Bearer bob"); len(told) != 2 {
		t.Errorf("the chat has %q", told)
	}
}

// A server that goes away cuts its streams off: one that ends would be a message that has ended.
func TestDrain(t *testing.T) {
	r := begin(t)
	a := r.call("POST", "/api/ui/chat", says("c1", "u1", "Hello", "")).want(200)
	a.until("start-step")
	ended := make(chan struct{})
	go func() { defer close(ended); _ = r.stop() }()
	var rest bytes.Buffer
	if _, err := rest.ReadFrom(a.body); err == nil {
		t.Errorf("the stream has ended, with %s", rest.String())
	}
	<-ended
}

// A chat that is erased ends its streams, with a word.
func TestErased(t *testing.T) {
	r := begin(t)
	a := r.call("POST", "/api/ui/chat", says("c1", "u1", "Hello", "")).want(200)
	a.until("start-step")
	key := r.key("c1")
	r.call("DELETE", "/api/sessions/"+string(key.Session), "").want(204)
	if told := a.all(); !strings.Contains(told, `{"type":"error","errorText":"the chat was erased`) {
		t.Errorf("it told %s", told)
	}
}

// A silent stream is kept alive by comments.
func TestComments(t *testing.T) {
	r := begin(t, func(c *gateway.Config, _ *gateway.Deps) { c.Times.Comment = 5 * time.Millisecond })
	a := r.call("POST", "/api/ui/chat", says("c1", "u1", "Hello", "")).want(200)
	a.until(": hb")
	r.model(r.key("c1"), text("Good day"))
	if told := a.all(); !strings.Contains(told, "Good day") {
		t.Errorf("it told %s", told)
	}
}

// What other clients say is there when the page is loaded, with who has said it.
func TestOthersSpeak(t *testing.T) {
	r := begin(t)
	r.call("POST", "/api/sessions", `{"client_session_id":"c1"}`, "Idempotency-Key", "c1")
	a := r.call("POST", "/api/ui/chat", says("c1", "u1", "Hello", "")).want(200)
	a.until("start-step")
	key := r.key("c1")
	r.model(key, text("Good day"))
	a.all()
	r.call("POST", "/api/sessions/"+string(key.Session)+"/messages", `{"text":"And I","client_msg_id":"ui:mine"}`).want(202)
	var page struct {
		Active   bool
		Messages []struct {
			ID       string
			Metadata struct{ Via, Message string }
		}
	}
	if err := json.Unmarshal([]byte(r.call("GET", "/api/ui/chat/c1", "").all()), &page); err != nil {
		t.Fatal(err)
	}
	last := page.Messages[len(page.Messages)-1]
	if !page.Active || len(page.Messages) != 3 || last.Metadata.Via != "http" || last.ID != last.Metadata.Message {
		t.Errorf("%+v", page)
	}
}

// The session of a delegation can be read, and watched, by who may see what tools do; nothing can be said to it.
func TestDelegation(t *testing.T) {
	r := begin(t, withKeys)
	ann, low := []string{"Authorization", "Bearer ann"}, []string{"Authorization", "Bearer low"}
	a := r.call("POST", "/api/ui/chat", says("c1", "u1", "Build it", ""), ann...).want(200)
	a.until("start-step")
	key := r.key("c1", ann...)
	r.model(key, call(conversation.ToolDelegate, `{"agent":"developer","objective":"Build"}`))
	a.until(`"toolName":"delegate"`)
	below := conversation.SessionKey{Tenant: key.Tenant, Session: key.Session + "/d1"}
	path := "/api/ui/chat/" + string(key.Session) + "%2Fd1"
	b := r.call("GET", path+"/stream", "", ann...).want(200)
	b.until("start-step")
	r.model(below, text("Built"))
	if told := b.all(); !strings.Contains(told, "Built") {
		t.Errorf("it told %s", told)
	}
	r.model(key, text("Done"))
	a.all()
	told, _ := r.page(path, ann...)
	if len(told) != 2 || !strings.HasSuffix(told[0], " Build") || !strings.HasSuffix(told[1], " Built") {
		t.Errorf("it is %q", told)
	}
	r.call("GET", path, "", low...).want(404)
	r.call("POST", "/api/ui/chat", says(string(below.Session), "u1", "Hello", ""), ann...).want(403)
	r.call("POST", path+"/stop", "", ann...).want(403)
}

// A first message that cannot be taken opens no chat.
func TestRefusedFileOpensNoChat(t *testing.T) {
	r := begin(t, func(c *gateway.Config, _ *gateway.Deps) { c.Limits.AttachmentsPerMessage = 1 })
	file := func(url string) string { return `{"type":"file","mediaType":"text/plain","url":"` + url + `"}` }
	inside := file("data:text/plain;base64,aGVsbG8=")
	for parts, status := range map[string]int{
		file("/api/blobs/" + strings.Repeat("0", 64)): 404, inside + "," + inside: 413,
	} {
		r.call("POST", "/api/ui/chat", `{"id":"new","messages":[{"id":"u1","role":"user","parts":[`+parts+`]}]}`).want(status)
		r.call("GET", "/api/ui/chat/new", "").want(404)
	}
}
