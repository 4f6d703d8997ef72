package checker

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"parley/cmd/parley-bench/internal/load"
)

// at writes the seq and time of each event of a log.
func at(events ...string) []string {
	log := make([]string, len(events))
	for i, e := range events {
		task := `"task":"t1",`
		if strings.Contains(e, `"task":`) {
			task = ""
		}
		log[i] = strings.Replace(e, `,"data"`, fmt.Sprintf(`,"seq":%d,"ts":"2026-11-21T10:00:00.%03dZ",%s"data"`, i+1, i, task), 1)
	}
	return log
}

func ev(typ, data string) string { return `{"type":"` + typ + `","data":{` + data + `}}` }

// good is a log in which everything is as it must be.
func good() []string {
	return []string{
		ev("session_created", `"policy":{"inbox.mode":"steer"}`),
		ev("message_accepted", `"message":"m1","client_msg_id":"w-1","text":"one","disposition":"started"`),
		ev("task_status", `"old_status":"QUEUED","new_status":"RUNNING"`),
		ev("step_started", `"step":1,"attempt":1,"read":["m1"]`),
		ev("message_accepted", `"message":"m2","client_msg_id":"w-2","text":"two","disposition":"joined"`),
		ev("message_edited", `"message":"m2","text":"three"`),
		ev("step_finished", `"step":1,"attempt":1,"outcome":"ok"`),
		ev("tool_started", `"call":"c1","tool":"clock","args":{}`),
		ev("tool_finished", `"call":"c1","status":"ok"`),
		ev("question", `"question":"q1","text":"May I?","blocking":true`),
		ev("message_accepted", `"message":"m3","client_msg_id":"w-3","text":"yes","disposition":"answered","question":"q1"`),
		ev("question_answered", `"question":"q1","message":"m3"`),
		ev("message_resolved", `"message":"m3","how":"merged","question":"q1"`),
		ev("step_started", `"step":2,"attempt":1,"read":["m2"]`),
		ev("step_started", `"step":2,"attempt":2,"read":["m2"],"cause":"interrupted"`),
		ev("step_finished", `"step":2,"attempt":2,"outcome":"ok"`),
		ev("partial_response", `"message":"p1","source":"m1","part":0,"text":"x"`),
		ev("message_resolved", `"message":"m1","how":"answered"`),
		ev("response", `"message":"p2","source":"m1","part":1,"text":"y"`),
		ev("message_resolved", `"message":"m2","how":"answered"`),
		ev("task_status", `"old_status":"RUNNING","new_status":"COMPLETE"`),
	}
}

// The model must find each kind of violation, or a green
// loop says nothing.
func TestModelFindsViolations(t *testing.T) {
	with := func(i int, event string) func([]string) []string {
		return func(log []string) []string { log[i-1] = event; return log }
	}
	without := func(i int) func([]string) []string {
		return func(log []string) []string { return append(log[:i-1:i-1], log[i:]...) }
	}
	before := func(i int, events ...string) func([]string) []string {
		return func(log []string) []string { return append(append(log[:i-1:i-1], events...), log[i-1:]...) }
	}
	for _, c := range []struct {
		name   string
		change func([]string) []string
		says   string // "" = nothing is wrong
	}{
		{"nothing is wrong", func(l []string) []string { return l }, ""},
		{"a promoted response is no second part", with(19, ev("response", `"message":"p1","source":"m1","part":0,"text":"x","promoted":true`)), ""},
		{"a promoted response with another text", with(19, ev("response", `"message":"p1","source":"m1","part":0,"text":"z","promoted":true`)), "was not shown so"},
		{"a message taken twice", with(5, ev("message_accepted", `"message":"m2","client_msg_id":"w-1","disposition":"joined"`)), "w-1 was accepted as m1 and as m2"},
		{"a message id given twice", with(5, ev("message_accepted", `"message":"m1","client_msg_id":"w-2","disposition":"joined"`)), "m1 was given before"},
		{"a message that is not resolved", without(20), "m2 (w-2) has no resolution"},
		{"two resolutions", before(20, ev("message_resolved", `"message":"m1","how":"merged"`)), "m1 was resolved before"},
		{"an answer to what was not read", before(7, ev("message_resolved", `"message":"m2","how":"answered"`)), "was never read"},
		{"an edit of what was read", before(15, ev("message_edited", `"message":"m2","text":"x"`)), "m2 was read in step 2"},
		{"a withdrawn message that is read", before(14, ev("message_withdrawn", `"message":"m2"`)), "m2 is not there to be read"},
		{"withdrawn and resolved otherwise", before(14, ev("message_withdrawn", `"message":"m2"`), ev("message_resolved", `"message":"m2","how":"cancelled"`)), "withdrawn: true"},
		{"a message read twice", with(14, ev("step_started", `"step":2,"attempt":1,"read":["m1"]`)), "m1 is not there to be read"},
		{"two steps at once", before(5, ev("step_started", `"step":2,"attempt":1,"read":[]`)), "step 1 is open"},
		{"an attempt left out", with(15, ev("step_started", `"step":2,"attempt":3,"read":["m2"],"cause":"interrupted"`)), "does not follow"},
		{"an attempt that reads more", with(15, ev("step_started", `"step":2,"attempt":2,"read":["m2","m3"],"cause":"interrupted"`)), "does not follow"},
		{"an answer of an older attempt", with(16, ev("step_finished", `"step":2,"attempt":1,"outcome":"ok"`)), "step 2.1 is not open"},
		{"a step left out", with(14, ev("step_started", `"step":3,"attempt":1,"read":["m2"]`)), "step 3 is the 2th"},
		{"a part twice", with(19, ev("response", `"message":"p2","source":"m1","part":0,"text":"y"`)), "part (m1 0) is there twice"},
		{"a part left out", with(19, ev("response", `"message":"p2","source":"m1","part":2,"text":"y"`)), "part (m1 2) comes after 1 parts"},
		{"two responses of a task", before(20, ev("response", `"message":"p3","source":"m1","part":2,"text":"y"`)), "two responses"},
		{"a call with two results", before(10, ev("tool_finished", `"call":"c1","status":"unknown"`)), "call c1 has two results, ok and unknown"},
		{"a result of a call that did not start", before(10, ev("tool_finished", `"call":"c2","status":"ok"`)), "call c2 has not started"},
		{"a call that was declined never starts", before(10, ev("tool_finished", `"call":"c2","status":"denied"`)), ""},
		{"a call started twice", before(9, ev("tool_started", `"call":"c1","tool":"clock"`)), "call c1 cannot start"},
		{"a call of an ended task", without(9), "has ended and call c1 has not"},
		{"a call after the cancel", before(8, ev("task_cancelling", `"by":"user"`)), "call c1 cannot start"},
		{"a question answered twice", before(13, ev("question_closed", `"question":"q1"`)), "question q1 is not open"},
		{"a question of an ended task", without(12), "has ended and question q1 is open"},
		{"a task that does not end", without(21), "task t1 is RUNNING"},
		{"a task that ends twice", before(21, ev("task_status", `"old_status":"RUNNING","new_status":"COMPLETE"`)), "is not RUNNING"},
		{"a task that ends in a step", without(16), "in step 2"},
		{"two RUNNING tasks", before(15, strings.Replace(ev("message_accepted", `"message":"m4","client_msg_id":"w-4","disposition":"queued"`), `,"data"`, `,"task":"t2","data"`, 1),
			strings.Replace(ev("task_status", `"old_status":"QUEUED","new_status":"RUNNING"`), `,"data"`, `,"task":"t2","data"`, 1)), "tasks t1 and t2 are RUNNING"},
		{"a move without effect", before(14, ev("message_accepted", `"message":"m4","client_msg_id":"w-4","disposition":"joined"`),
			ev("message_moved", `"message":"m4","before":"m2"`), ev("step_started", `"step":2,"attempt":1,"read":["m2","m4"]`),
			ev("step_finished", `"step":2,"attempt":1`), ev("message_resolved", `"message":"m1","how":"answered"`),
			ev("message_resolved", `"message":"m2","how":"answered"`), ev("message_resolved", `"message":"m4","how":"answered"`),
			ev("task_status", `"old_status":"RUNNING","new_status":"COMPLETE"`),
			"end"), "m4 was moved before m2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := fold(c.change(good()))
			switch {
			case c.says == "" && err != nil:
				t.Errorf("a false alarm: %v", err)
			case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
				t.Errorf("it says %v, want %q", err, c.says)
			}
		})
	}
	t.Run("a gap", func(t *testing.T) {
		md := newModel()
		if err := md.apply([]byte(`{"type":"session_created","seq":2,"ts":"2026-11-21T10:00:00Z","data":{}}`)); err == nil {
			t.Error("not found")
		}
	})
	t.Run("a step back in time", func(t *testing.T) {
		md := newModel()
		_ = md.apply([]byte(`{"type":"session_created","seq":1,"ts":"2026-11-21T10:00:01Z","data":{}}`))
		if err := md.apply([]byte(`{"type":"session_updated","seq":2,"ts":"2026-11-21T10:00:00Z","data":{}}`)); err == nil {
			t.Error("not found")
		}
	})
}

// fold checks a log up to the word end.
func fold(log []string) error {
	md := newModel()
	for _, raw := range at(log...) {
		if raw == "end" {
			break
		}
		if err := md.apply([]byte(raw)); err != nil {
			return err
		}
	}
	return md.checkEnd()
}

// The log is compared with the history.
func TestCheckFindsViolations(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*client, []string) []string // of what it knows, and of the log
		says   string
	}{
		{"nothing is wrong", func(_ *client, l []string) []string { return l }, ""},
		{"it missed the end", func(cl *client, l []string) []string { cl.history = cl.history[:9]; return l }, ""},
		{"the end of the log is lost", func(cl *client, l []string) []string { return l[:20] }, "the log ends at 20"},
		{"changed bytes", func(_ *client, l []string) []string {
			l[18] = strings.Replace(l[18], `"y"`, `"z"`, 1)
			return l
		}, "seq 19 was shown as"},
		{"an acknowledged message is lost", func(cl *client, l []string) []string { cl.acknowledged["w-9"] = "m9"; return l }, "w-9 was acknowledged and is not in the log"},
		{"under another id", func(cl *client, l []string) []string { cl.acknowledged["w-1"] = "m9"; return l }, "w-1 was acknowledged as m9 and is m1"},
		{"a refused message was taken", func(cl *client, l []string) []string { cl.refused["w-1"] = "session_busy"; return l }, "w-1 was refused"},
		{"a foreign message", func(cl *client, l []string) []string { delete(cl.texts, "w-1"); return l }, "that nobody sent"},
		{"another text", func(cl *client, l []string) []string { cl.texts["w-1"] = "x"; return l }, `"x" and is stored as "one"`},
		{"reordered", func(cl *client, l []string) []string { cl.order = []string{"w-2", "w-1", "w-3"}; return l }, "sent before"},
		{"reordered by one that was refused for the moment", func(cl *client, l []string) []string {
			cl.order = []string{"w-2", "w-1", "w-3"}
			_ = cl.handleRefusal(&operation{kind: "send", clientMsgID: "w-2"}, &load.Refusal{Code: "unavailable"})
			return l
		}, ""},
		{"another one was refused for the moment", func(cl *client, l []string) []string {
			cl.order = []string{"w-2", "w-1", "w-3"}
			_ = cl.handleRefusal(&operation{kind: "send", clientMsgID: "w-3"}, &load.Refusal{Code: "unavailable"})
			return l
		}, "sent before"},
		{"an edit without effect", func(cl *client, l []string) []string {
			cl.changes = []*operation{{kind: "edit", target: "m2", text: "four"}}
			return l
		}, "the edit of m2"},
		{"an edit", func(cl *client, l []string) []string {
			cl.changes = []*operation{{kind: "edit", target: "m2", text: "three"}}
			return l
		}, ""},
		{"a withdrawal without effect", func(cl *client, l []string) []string {
			cl.changes = []*operation{{kind: "withdraw", target: "m2"}}
			return l
		}, "the withdrawal of m2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := at(good()...)
			cl := newClient(0, 1)
			cl.session, cl.order = "s", []string{"w-1", "w-2", "w-3"}
			cl.texts = map[string]string{"w-1": "one", "w-2": "two", "w-3": "yes"}
			cl.acknowledged = map[string]string{"w-1": "m1", "w-2": "m2", "w-3": ""}
			for _, raw := range log {
				cl.history = append(cl.history, []byte(raw))
			}
			log = c.change(cl, log)
			web := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
				since, _ := strconv.Atoi(r.URL.Query().Get("since"))
				_, _ = out.Write([]byte(`{"items":[` + strings.Join(log[since:min(len(log), since+8)], ",") + `]}`))
			}))
			defer web.Close()
			_, err := cl.check(t.Context(), &load.Server{Addr: strings.TrimPrefix(web.URL, "http://")}, newSideEffects())
			switch {
			case c.says == "" && err != nil:
				t.Errorf("a false alarm: %v", err)
			case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
				t.Errorf("it says %v, want %q", err, c.says)
			}
		})
	}
}

func TestRecordFindsGapsAndChanges(t *testing.T) {
	cl := newClient(0, 1)
	see := func(raw string) error {
		var f load.Frame
		if err := f.Scan([]byte(raw)); err != nil {
			t.Fatal(err)
		}
		return cl.record(&f)
	}
	for _, c := range []struct {
		raw string
		ok  bool
	}{
		{`{"type":"a","seq":1,"data":{}}`, true},
		{`{"type":"b","seq":2,"data":{}}`, true},
		{`{"type":"a","seq":1,"data":{}}`, true},
		{`{"type":"delta","after":2,"data":{"draft":"1.1.0"}}`, true},
		{`{"type":"c","seq":2,"data":{}}`, false},
		{`{"type":"d","seq":4,"data":{}}`, false},
	} {
		if err := see(c.raw); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.raw, err)
		}
	}
}

// A draft of an attempt that was replaced is stale, whichever node shows it.
func TestRecordFindsStaleFrames(t *testing.T) {
	cl := newClient(0, 1)
	cl.session = "s"
	for i, raw := range at(good()...)[:15] { // attempt 2 of step 2 has started
		var f load.Frame
		if err := f.Scan([]byte(raw)); err != nil {
			t.Fatal(err)
		}
		if err := cl.record(&f); err != nil {
			t.Fatalf("event %d: %v", i+1, err)
		}
	}
	for _, c := range []struct{ raw, says string }{
		{`{"type":"delta","session":"s","after":15,"data":{"draft":"2.2.0","at":0,"text":"x"}}`, ""},
		{`{"type":"delta","session":"s","after":15,"data":{"draft":"2.1.0","at":0,"text":"x"}}`, "a stale frame"},
		{`{"type":"delta","session":"s","after":14,"data":{"draft":"1.1.3","at":0,"text":"x"}}`, "a stale frame"},
		{`{"type":"draft_state","session":"s","after":15,"data":{"draft":"2.1.0","text":"x"}}`, "a stale frame"},
		{`{"type":"draft_dropped","session":"s","after":15,"data":{"draft":"2.1.0"}}`, ""},
		{`{"type":"thinking","session":"s","after":16,"data":{}}`, "it came before seq 16"},
		{`{"type":"delta","session":"s","after":15,"data":{"draft":"x"}}`, "cannot be read"},
		{`{"type":"hb","data":{"ts":"2026-11-21T10:00:00Z"}}`, ""},
	} {
		var f load.Frame
		if err := f.Scan([]byte(c.raw)); err != nil {
			t.Fatal(err)
		}
		err := cl.record(&f)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: it says %v, want %q", c.raw, err, c.says)
		}
	}
}

// On a cluster no task ends in ERROR but of a model that fails for good.
func TestErrorsOfTasks(t *testing.T) {
	md := newModel()
	md.newTask("t1")
	md.taskOrder[0].status = "ERROR"
	cl := newClient(0, 1)
	if err := cl.checkErrors(md, ""); err != nil {
		t.Errorf("one node: %v", err)
	}
	cl.many = true
	if err := cl.checkErrors(md, ""); err == nil {
		t.Error("not found")
	}
	if err := cl.checkErrors(md, failsForGood+" && /say never"); err != nil {
		t.Errorf("of a model that fails: %v", err)
	}
}

// A refusal is fine where the contract allows it, and nowhere else.
func TestAnswersThatAreNotAllowed(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(cl *client) error
		says string
	}{
		{"a busy session", func(cl *client) error {
			return cl.handleRefusal(&operation{kind: "send", clientMsgID: "w-1"}, &load.Refusal{Code: "session_busy"})
		}, ""},
		{"a message already read", func(cl *client) error {
			return cl.handleRefusal(&operation{kind: "edit", target: "m1"}, &load.Refusal{Code: "conflict"})
		}, ""},
		{"a conflict of a message sent again", func(cl *client) error {
			return cl.handleRefusal(&operation{kind: "send", clientMsgID: "w-1", repeated: true}, &load.Refusal{Code: "conflict"})
		}, "was refused"},
		{"a refused repetition", func(cl *client) error {
			return cl.handleRefusal(&operation{kind: "send", clientMsgID: "w-1", repeated: true}, &load.Refusal{Code: "session_busy"})
		}, "was refused"},
		{"an internal error", func(cl *client) error {
			return cl.handleRefusal(&operation{kind: "send", clientMsgID: "w-1"}, &load.Refusal{Code: "internal"})
		}, "was refused"},
		{"a repetition", func(cl *client) error {
			cl.acknowledged["w-1"] = "m1"
			return cl.handleOK(&operation{kind: "send", clientMsgID: "w-1", repeated: true}, "m1", true)
		}, ""},
		{"a repetition taken for new", func(cl *client) error {
			cl.acknowledged["w-1"] = "m1"
			return cl.handleOK(&operation{kind: "send", clientMsgID: "w-1", repeated: true}, "m2", false)
		}, "was sent again and is m2"},
		{"a repetition of what was lost", func(cl *client) error {
			return cl.handleOK(&operation{kind: "send", clientMsgID: "w-1", maybeDone: true}, "m1", true)
		}, ""},
		{"a new message taken for a repetition", func(cl *client) error { return cl.handleOK(&operation{kind: "send", clientMsgID: "w-1"}, "m1", true) }, "was sent once"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.do(newClient(0, 1))
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("it says %v, want %q", err, c.says)
			}
		})
	}
}

// A tool that is not idempotent runs at most once.
func TestSideEffects(t *testing.T) {
	for _, c := range []struct {
		name, file string
		says       string
	}{
		{"nothing is wrong", "line-w0-1\n", ""},
		{"a call of unknown outcome may have written", "line-w0-1\nline-w0-2\n", ""},
		{"a line twice", "line-w0-1\nline-w0-1\n", "line-w0-1 was written twice"},
		{"a line without a call", "line-w0-1\nline-w0-3\n", "no log has a call"},
		{"a line of an edited text", "line-w0-1\nline-w0-4\n", "line-w0-4 was written, and was in no message that was read"},
		{"a line that is not there", "", "it is not there"},
	} {
		t.Run(c.name, func(t *testing.T) {
			md := newModel()
			for n, status := range map[string]string{"1": "ok", "2": "unknown", "4": "unknown"} {
				md.calls[n] = &call{id: n, tool: "journal_append", status: status, args: []byte(`{"line":"line-w0-` + n + `"}`)}
			}
			md.messageOrder = []*message{{text: "line-w0-1", read: 1}, {text: "line-w0-2", disposition: "answered"}, {text: "line-w0-4"}}
			effects := newSideEffects()
			effects.add(md)
			err := effects.check(c.file)
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("it says %v, want %q", err, c.says)
			}
		})
	}
	t.Run("two calls for a line", func(t *testing.T) {
		md := newModel()
		for _, id := range []string{"c1", "c2"} {
			md.calls[id] = &call{id: id, tool: "approved_append", status: "error", args: []byte(`{"line":"line-w0-1"}`)}
		}
		effects := newSideEffects()
		effects.add(md)
		if err := effects.check(""); err == nil {
			t.Error("not found")
		}
	})
}

func TestAppendLineAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for j := range 20 {
				if err := appendLine(path, fmt.Sprintf("line-w%d-%d", i, j)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	lines := strings.Split(strings.TrimSuffix(readFile(t, path), "\n"), "\n")
	there := map[string]bool{}
	for _, line := range lines {
		there[line] = true
	}
	if len(lines) != 160 || len(there) != 160 {
		t.Errorf("%d lines, %d different ones, want 160", len(lines), len(there))
	}
}

// A seed gives the same operations again, and each line is in one of them only.
func TestLoadIsRepeatable(t *testing.T) {
	say := func() (all []string) {
		d := newClient(3, 99).generator
		md := newModel()
		for range 200 {
			all = append(all, d.next(md, nil).data)
		}
		return all
	}
	first, second := say(), say()
	lines := map[string]bool{}
	for i := range first {
		if first[i] != second[i] {
			t.Fatalf("the %dth command of a seed is %s and %s", i, first[i], second[i])
		}
		if strings.Contains(first[i], "LINE") {
			t.Errorf("no line in %s", first[i])
		}
		for _, line := range linePattern.FindAllString(first[i], -1) {
			if lines[line] {
				t.Errorf("%s is there twice", line)
			}
			lines[line] = true
		}
	}
	if len(lines) == 0 {
		t.Error("no program writes a line")
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
