package agui

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/gateway/exchange"
	"parley/gateway/gatewaytest"
)

// list is a client's list of messages: user and assistant texts as ROLE ID TEXT, one a line.
func list(lines string) (all []message) {
	for line := range strings.Lines(lines) {
		f := strings.Fields(line)
		role := map[string]string{"u": "user", "a": "assistant", "t": "tool", "s": "system"}[f[0]]
		raw, _ := json.Marshal(map[string]string{"id": f[1], "role": role, "content": f[2]})
		all = append(all, message{ID: f[1], Role: role, Content: content{Text: f[2]}, Raw: raw})
	}
	return all
}

// told is what the client has after the snapshots.
func told(have []message, snapshots [][]byte) string {
	v := newVerifier()
	for _, m := range have {
		v.list = append(v.list, shownMessage{ID: m.ID, Role: m.Role, Content: m.Content.Text})
	}
	for _, s := range snapshots {
		var all []any
		if err := json.Unmarshal(s, &all); err != nil {
			return err.Error()
		}
		v.snapshot(all)
	}
	var ids []string
	for _, m := range v.list {
		ids = append(ids, m.ID+"="+m.Content)
	}
	return strings.Join(ids, " ")
}

// fold makes a history of a play, as if the run began behind its last event.
func (p play) history(whole bool) *history {
	h := newHistory("S", "ann", whole)
	for n := range gatewaytest.Notes(exchange.NewFold(0, 0, false), gatewaytest.Stored(p)) {
		h.add(n, true)
	}
	return h
}

func partial(n int, text string) conversation.PartialResponse {
	return conversation.PartialResponse{Part: says(n, text, "")}
}

// What a client has after the snapshots with which a run begins.
func TestSnapshots(t *testing.T) {
	three := play{
		accepted("m1-S", "agui:u1", "one", agui), partial(1, "ONE"), accepted("m2-S", "web", "two", native), partial(2, "TWO"), accepted("m3-S", "agui:u3", "three", agui),
	}
	for _, c := range []struct {
		name  string
		play  play
		later bool // there is more before the play
		have  string
		want  string // "" = no snapshot
		count int
	}{
		{name: "it lacks nothing", play: three, have: "u u1 one\na p1-S ONE\nu m2-S two\na p2-S TWO\nu u3 three"},
		{name: "others spoke between", play: three, have: "u u1 one\na p1-S ONE\nu u3 three", want: "u1=one p1-S=ONE m2-S=two p2-S=TWO u3=three", count: 2},
		{name: "it is new", play: three, have: "u u3 three", want: "u1=one p1-S=ONE m2-S=two p2-S=TWO u3=three", count: 2},
		{name: "it has nothing", play: three, want: "u1=one p1-S=ONE m2-S=two p2-S=TWO u3=three", count: 1},
		{
			name: "what only the client has stays where it is", play: three, have: "s s1 be-kind\nu u1 one\na p1-S ONE\nt t1 12\nu u3 three",
			want: "s1=be-kind u1=one p1-S=ONE t1=12 m2-S=two p2-S=TWO u3=three", count: 2,
		},
		{name: "nothing is lacking but its own", play: three, have: "s s1 be-kind\nu u1 one\na p1-S ONE\na x own\nu m2-S two\na p2-S TWO\nu u3 three"},
		{name: "a text was cut off", play: three, have: "u u1 one\na p1-S ON\nu m2-S two\na p2-S TWO\nu u3 three", want: "u1=one p1-S=ONE m2-S=two p2-S=TWO u3=three", count: 1},
		{
			name: "one that did not come to its end, and one that was dropped", play: three, have: "u u1 one\na 1.1.0-t1-S O\na p1-S ONE\nu m2-S two\na p2-S TWO\nu u3 three\na 3.1.0-t3-S Thr",
			want: "u1=one p1-S=ONE m2-S=two p2-S=TWO u3=three", count: 1,
		},
		{name: "in another order", play: three, have: "u u1 one\na p1-S ONE\nu u3 three\nu m2-S two\na p2-S TWO", want: "u1=one p1-S=ONE m2-S=two p2-S=TWO u3=three", count: 2},
		{
			name: "what lies before what is known stays as it is", play: three, later: true, have: "u u0 nought\na p0-S NOUGHT\nu u1 one\na p1-S ONE\nu u3 three",
			want: "u0=nought p0-S=NOUGHT u1=one p1-S=ONE m2-S=two p2-S=TWO u3=three", count: 2,
		},
		{name: "another user calls a message the same", play: play{
			accepted("m1-S", "agui:u1", "one", agui), by("bob", accepted("m2-S", "agui:u1", "two", agui)), partial(2, "TWO"),
		}, have: "u u1 one", want: "u1=one m2-S=two p2-S=TWO", count: 1},
		{name: "edited and taken back", play: play{
			accepted("m1-S", "web", "one", native), conversation.MessageEdited{Message: "m1-S", Text: "ONE"}, accepted("m2-S", "web2", "two", native), conversation.MessageWithdrawn{Message: "m2-S"},
		}, want: "m1-S=ONE", count: 1},
		{name: "answers are words, results and approvals are none", play: play{
			conversation.Asked{Question: "q1", Text: "Which?"}, answer("m1-S", "x", "q1", "JWT", agui), approval("q2", "c1", ""), answer("m2-S", "y", "q2", `{"approve":true}`, agui),
			weather, conversation.Asked{Question: "q3", Call: "c1-S", Text: "?"}, answer("m3-S", "z", "q3", "12", native),
		}, want: "m1-S=JWT", count: 1},
		{name: "calls that ran are left as the client has them", play: play{
			accepted("m1-S", "agui:u1", "one", agui), weather, conversation.ToolFinished{Call: "c1-S", Status: conversation.CallOK}, partial(1, "ONE"),
		}, have: "u u1 one\na c1-S call\nt c1-S-result 12\na p1-S ONE"},
		{name: "calls that are told again go", play: play{accepted("m1-S", "agui:u1", "one", agui)}, have: "u u1 one\na c1-S call\nt c1-S-result 12", want: "u1=one", count: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			have := list(c.have)
			snapshots := c.play.history(!c.later).snapshots(have)
			if len(snapshots) != c.count {
				t.Errorf("%d snapshots, want %d", len(snapshots), c.count)
			}
			if got := told(have, snapshots); c.want != "" && got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// Whatever a client's list is, after the snapshots it shows the session's messages in their order,
// and lacks nothing the next time.
func TestSnapshotsSettle(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	for round := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, round))
		var p play
		var lines, want []string
		for n := range 1 + r.IntN(8) {
			id, role, text := fmt.Sprintf("p%d-S", n), "a", fmt.Sprint("t", n)
			if r.IntN(2) == 0 {
				id, role = fmt.Sprint("u", n), "u"
				p = append(p, accepted(fmt.Sprintf("m%d-S", n), "agui:"+id, text, agui))
			} else {
				p = append(p, partial(n, text))
			}
			want = append(want, id+"="+text)
			if r.IntN(4) > 0 {
				if role == "a" && r.IntN(5) == 0 {
					text = "t"
				}
				lines = append(lines, role+" "+id+" "+text)
			}
			switch r.IntN(6) {
			case 0:
				lines = append(lines, fmt.Sprintf("s s%d x", n))
			case 1:
				lines = append(lines, fmt.Sprintf("a 9.%d.0-t9-S x", n))
			}
		}
		if r.IntN(3) == 0 {
			r.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
		}
		have := list(strings.Join(lines, "\n"))
		h := p.history(true)
		got := strings.Fields(told(have, h.snapshots(have)))
		var after []string
		own := 0
		for _, m := range got {
			id, text, _ := strings.Cut(m, "=")
			role := "a"
			switch id[0] {
			case 's':
				role, own = "s", own+1
			case 'u':
				role = "u"
			}
			after = append(after, role+" "+id+" "+text)
		}
		got = slices.DeleteFunc(got, func(m string) bool { return m[0] == 's' })
		if !slices.Equal(got, want) || own != strings.Count(strings.Join(lines, "\n")+"\n", " x\n")-strings.Count(strings.Join(lines, "\n"), ".0-t9-S") {
			t.Fatalf("seed %d round %d: %v of %v, want %v", seed, round, got, lines, want)
		}
		if again := h.snapshots(list(strings.Join(after, "\n"))); again != nil {
			t.Fatalf("seed %d round %d: it is told again: %s, and has %v", seed, round, again, after)
		}
	}
}

// A history is bounded: its oldest messages are left as the client has them.
func TestSnapshotsAreBounded(t *testing.T) {
	p := play{accepted("m1-S", "web", "one", native), partial(1, "ONE"), accepted("m2-S", "web2", "two", native)}
	h := p.history(true)
	h.bound(6)
	have := list("a 9.1.0-t0-S old\na p1-S ONE")
	if got := told(have, h.snapshots(have)); got != "9.1.0-t0-S=old p1-S=ONE m2-S=two" {
		t.Error(got)
	}
}
