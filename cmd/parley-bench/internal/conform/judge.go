package conform

import (
	"fmt"
	"slices"
	"strings"
)

// event is one of the server's log.
type event struct {
	Seq  int64  `json:"seq"`
	Type string `json:"type"`
	Task string `json:"task"`
	Data struct {
		ClientMsgID string `json:"client_msg_id"`
		Message     string `json:"message"`
		Question    string `json:"question"`
		Task        string `json:"task"`
		NewStatus   string `json:"new_status"`
	} `json:"data"`
}

// accepted are the client's own names of its messages in the log, in their order.
func accepted(log []event) (ids []string) {
	for _, e := range log {
		if e.Type == "message_accepted" && !strings.HasPrefix(e.Data.ClientMsgID, another) {
			ids = append(ids, e.Data.ClientMsgID)
		}
	}
	return ids
}

// settled is true when nothing that was accepted is still to be answered.
func settled(log []event) bool {
	open := make(map[string]bool)
	for _, e := range log {
		switch e.Type {
		case "message_accepted":
			open[e.Data.Message] = true
		case "message_resolved":
			delete(open, e.Data.Message)
		case "task_status":
			task := e.Task + e.Data.Task
			open[task] = true
			if slices.Contains([]string{"COMPLETE", "ERROR", "CANCELLED"}, e.Data.NewStatus) {
				delete(open, task)
			}
		}
	}
	return len(open) == 0
}

// verdict says what is wrong with what a client did; nil = nothing.
func verdict(t trial, p *proxy, log []event, sent []string, heard []line, ended bool) (wrong []string) {
	wrong = append(wrong, p.wrong...)
	say := func(format string, args ...any) {
		if text := fmt.Sprintf(format, args...); !slices.Contains(wrong, text) {
			wrong = append(wrong, text)
		}
	}
	if got := accepted(log); !slices.Equal(got, sent) {
		say("the server has accepted %s, want %s", short(got), short(sent))
	}
	count := make(map[string]int)
	var resets, stopped int
	last, seen := int64(0), 0
	for _, l := range heard {
		switch {
		case l.Sent != "":
			count[l.Sent]++
		case l.Failed != "":
			say("it gave up %s: %s", l.Failed, l.Code)
		case l.Reset != "":
			resets++
			last, seen = -1, 0
		case l.Stopped != 0:
			stopped = l.Stopped
		case l.Seq > 0:
			seen++
			switch {
			case last == -1: // behind a reset it begins anywhere
			case l.Seq <= last:
				say("event %d came after event %d: doubled, or out of order", l.Seq, last)
			case l.Seq > last+1:
				say("behind event %d came event %d: a gap", last, l.Seq)
			}
			last = l.Seq
			if i := int(l.Seq) - 1; !t.renamed && i < len(log) && log[i].Type != l.Type {
				say("event %d is %q, and it says %q", l.Seq, log[i].Type, l.Type)
			}
		}
	}
	for _, id := range sent {
		if count[id] != 1 {
			say("it told %d times that %s was sent, want once", count[id], id)
		}
	}
	if head := len(log); t.final == 0 && last != int64(head) {
		say("it stopped at event %d of %d", max(last, 0), head)
	}
	if want := map[bool]int{true: 1}[t.reset]; resets != want {
		say("it told %d times that the log is another one, want %d", resets, want)
	}
	if stopped != t.final {
		say("it told that the connection ended for good with %d, want %d (0 = not at all)", stopped, t.final)
	}
	if t.final != 0 && p.connections() != 1 {
		say("it came back %d times", p.connections()-1)
	}
	if t.between != nil && t.final == 0 && !t.stays && p.connections() < 2 {
		say("it did not come back")
	}
	if t.stays && p.connections() != 1 {
		say("it made %d connections, want one", p.connections())
	}
	if !ended {
		say("it did not end when it was told to stop")
	}
	if t.judge != nil {
		if text := t.judge(p, heard); text != "" {
			say("%s", text)
		}
	}
	return wrong
}

// short is a list, cut.
func short(all []string) string {
	if len(all) > 12 {
		return fmt.Sprintf("%s … (%d)", strings.Join(all[:12], " "), len(all))
	}
	return "[" + strings.Join(all, " ") + "]"
}
