package chaos

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// goodLog is a session with two messages: one that a second runtime has answered in
// two parts, and one that ended in ERROR after three.
const goodLog = `{"type":"session_created","seq":1}
{"type":"message_accepted","seq":2,"data":{"message":"m1","client_msg_id":"0","text":"7 2 plain"}}
{"type":"task_status","seq":3,"data":{"trigger":"m1","new_status":"RUNNING"}}
{"type":"message_accepted","seq":4,"data":{"message":"m2","client_msg_id":"1","text":"8 2 kills"}}
{"type":"runtime_status","seq":5,"data":{"message":"m1","status":"handed_out","generation":1,"runtime":"w1"}}
{"type":"partial_response","seq":6,"data":{"message":"p1","source":"m1","part":0,"text":"7/0"}}
{"type":"runtime_status","seq":7,"data":{"message":"m1","status":"failed","generation":1,"runtime":"w1"}}
{"type":"runtime_status","seq":8,"data":{"message":"m1","status":"handed_out","generation":2,"runtime":"w2"}}
{"type":"response","seq":9,"data":{"message":"p2","source":"m1","part":1,"text":"7/1"}}
{"type":"message_resolved","seq":10,"data":{"message":"m1","how":"answered"}}
{"type":"task_status","seq":11,"data":{"trigger":"m1","new_status":"COMPLETE"}}
{"type":"task_status","seq":12,"data":{"trigger":"m2","new_status":"RUNNING"}}
{"type":"runtime_status","seq":13,"data":{"message":"m2","status":"handed_out","generation":1,"runtime":"w2"}}
{"type":"runtime_status","seq":14,"data":{"message":"m2","status":"handed_out","generation":2,"runtime":"w3"}}
{"type":"runtime_status","seq":15,"data":{"message":"m2","status":"handed_out","generation":3,"runtime":"w4"}}
{"type":"response","seq":16,"data":{"message":"p3","source":"m2","part":0,"text":"sorry","kind":"error"}}
{"type":"message_resolved","seq":17,"data":{"message":"m2","how":"failed"}}
{"type":"task_status","seq":18,"data":{"trigger":"m2","new_status":"ERROR"}}`

// The judge finds nothing in a good log, and names what is wrong in a bad one.
func TestJudge(t *testing.T) {
	acks := &notes{
		parts: map[string][]acknowledged{"s": {
			{Session: "s", Source: "m1", Message: "p1", Index: 0, Seq: 6, Generation: 1}, {Session: "s", Source: "m1", Message: "p2", Index: 1, Seq: 9, Generation: 2},
			{Session: "s", Source: "m1", Message: "p1", Index: 0, Seq: 6, Generation: 2, Duplicate: true},
		}},
		handouts: map[string][]handout{"s": {{Session: "s", Message: "m1", Runtime: "w1", Generation: 1}, {Session: "s", Message: "m1", Runtime: "w2", Generation: 2}}},
	}
	for _, x := range []struct{ name, old, new, want string }{
		{"nothing", "", "", "0 0 0 0"},
		{"an acknowledged message is gone", `"client_msg_id":"1"`, `"client_msg_id":"9"`, "1 0 0 0"},
		{"a message has another text", `"text":"8 2 kills"`, `"text":"8 2 plain"`, "0 0 0 1"},
		{"a message is there twice", `"client_msg_id":"1"`, `"client_msg_id":"0"`, "1 1 0 1"},
		{"a message was never resolved", `"message_resolved","seq":10`, `"other","seq":10`, "1 0 0 0"},
		{"a message was resolved twice", `"task_status","seq":12,"data":{"trigger":"m2","new_status":"RUNNING"}`, `"message_resolved","seq":12,"data":{"message":"m1","how":"answered"}`, "0 1 0 0"},
		{"a task has not ended", `"new_status":"COMPLETE"`, `"new_status":"RUNNING"`, "0 0 1 0"},
		{"a part is gone", `"part":1,"text":"7/1"`, `"part":2,"text":"7/2"`, "1 0 0 0"},
		{"a part is there twice", `"part":1,"text":"7/1"`, `"part":0,"text":"7/0"`, "0 1 0 0"},
		{"a part has another text", `"text":"7/1"`, `"text":"7/9"`, "0 0 0 1"},
		{"an acknowledged part is another one", `"message":"p2"`, `"message":"p9"`, "0 0 0 1"},
		{"a part is missing at the end", `{"type":"response","seq":9`, `{"type":"other","seq":9`, "2 0 0 0"},
		{"an error is not told", `"kind":"error"`, `"kind":""`, "0 0 0 2"},
		{"a hand-out went to somebody else", `"generation":2,"runtime":"w2"`, `"generation":2,"runtime":"w9"`, "1 0 0 0"},
		{"a hand-out was repeated to its runtime", `{"type":"task_status","seq":12,"data":{"trigger":"m2","new_status":"RUNNING"}}`, `{"type":"runtime_status","seq":12,"data":{"message":"m2","status":"handed_out","generation":1,"runtime":"w2"}}`, "0 0 0 0"},
		{"a generation went to two runtimes", `{"type":"task_status","seq":12,"data":{"trigger":"m2","new_status":"RUNNING"}}`, `{"type":"runtime_status","seq":12,"data":{"message":"m2","status":"handed_out","generation":1,"runtime":"w9"}}`, "0 0 0 4"},
		{"a generation was left out", `"generation":2,"runtime":"w3"`, `"generation":3,"runtime":"w3"`, "0 0 0 1"},
		{"an event is missing", `"seq":12`, `"seq":13`, "0 0 0 2"},
		{"a part was taken after the next hand-out", `"seq":8,"data":{"message":"m1","status":"handed_out","generation":2,"runtime":"w2"}}`, `"seq":8,"data":{"message":"m1","status":"handed_out","generation":2,"runtime":"w2"}}` +
			"\n" + `{"type":"runtime_status","seq":8,"data":{"message":"m1","status":"handed_out","generation":3,"runtime":"w3"}}`, "0 0 0 2"},
	} {
		var log []frame
		for line := range strings.Lines(strings.Replace(goodLog, x.old, x.new, 1)) {
			var f frame
			if err := json.Unmarshal([]byte(line), &f); err != nil {
				t.Fatal(err)
			}
			if n, k := 0, 0; f.Data.Text != "" && f.Type != "message_accepted" {
				if _, err := fmt.Sscanf(f.Data.Text, "%d/%d", &n, &k); err == nil {
					f.Data.Text = order{number: n}.part(k)
				}
			}
			log = append(log, f)
		}
		talk := &conversation{session: "s", said: []said{{order{7, 2, plain}, "m1"}, {order{8, 2, kills}, "m2"}}}
		v := compare(log, talk, acks)
		if got := fmt.Sprint(v.lost, v.doubled, v.blocked, v.wrong); got != x.want {
			t.Errorf("%s: lost, doubled, blocked, wrong %s, want %s\n%s", x.name, got, x.want, strings.Join(v.examples, "\n"))
		}
		if clean := x.want == "0 0 0 0"; v.clean() != clean || len(v.examples) > 0 == clean {
			t.Errorf("%s: %+v", x.name, v)
		}
	}
}
