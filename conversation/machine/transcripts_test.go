package machine

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/access"
	"parley/conversation/machine/internal/effects"
	"parley/conversation/policy"
	"parley/conversation/transcript"
)

var rewrite = flag.Bool("rewrite", false, "write the transcripts' outputs anew; commit the difference only if you can explain it")

// TestTranscripts runs testdata/*.txt: commands, then "----", then everything
// the machine made of them, each command's under an echo of it ("> tick") if
// there are several. After every command the log is replayed into a second
// machine, which must be the same.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := runTranscript(t, string(data))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(data) {
				t.Errorf("%s: the output differs (rewrite with: go test ./conversation/machine -run TestTranscripts -rewrite)\n%s", file, diff(string(data), got))
			}
		})
	}
}

// runTranscript runs a file's commands and returns the file as it should be.
func runTranscript(t *testing.T, text string) string {
	w := newScene(t)
	var out strings.Builder
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); {
		line := lines[i]
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			out.WriteString(line)
			if i < len(lines)-1 {
				out.WriteByte('\n')
			}
			i++
			continue
		}
		var result strings.Builder
		first := i
		for ; i < len(lines) && lines[i] != "----" && strings.TrimSpace(lines[i]) != ""; i++ {
		}
		for _, command := range lines[first:i] {
			out.WriteString(command + "\n")
			if i > first+1 {
				result.WriteString("> " + command + "\n")
			}
			w.run(&result, command)
		}
		if i < len(lines) && lines[i] == "----" {
			for i++; i < len(lines) && strings.TrimSpace(lines[i]) != ""; i++ {
			}
		}
		out.WriteString("----\n" + result.String())
	}
	return out.String()
}

// scene is one session with its log, a clock that starts at 12:00:00, and the
// shell's knowledge of slots.
type scene struct {
	t     *testing.T
	key   conversation.SessionKey
	rules *policy.Rules
	s     *Session
	log   []conversation.Event
	tr    *transcript.Transcript
	now   time.Time
	slot  bool
	keys  map[conversation.Key]conversation.Seq // that the store would hold
	rows  map[conversation.TaskID]conversation.TaskRow
	asked []conversation.Effect // the acquiring effects so far, for "wants"

	stopsLate bool                     // a model call runs until "stopped" says that it has ended
	asking    conversation.Attempt     // the model call that runs
	drafts    []conversation.DraftView // of it, as followers have seen them

	receipts []conversation.Receipt // of the messages so far
}

func testRules() *policy.Rules {
	p := policy.DefaultPolicy()
	p.Channels = map[conversation.Via]conversation.Mode{}
	profile := func(name conversation.AgentName, f func(*policy.Profile)) policy.Profile {
		a := policy.Profile{Name: name, Description: "test " + string(name), Prompt: "You are " + string(name) + ".", Tools: []string{"*"}, MayAsk: true, EngineTools: true}
		if f != nil {
			f(&a)
		}
		return a
	}
	return &policy.Rules{
		Policy: p,
		Agents: map[conversation.AgentName]policy.Profile{
			conversation.Coordinator: profile(conversation.Coordinator, func(a *policy.Profile) { a.Delegates = true }),
			"developer":              profile("developer", func(a *policy.Profile) { a.Delegates, a.Delegable = true, true }),
			"researcher":             profile("researcher", func(a *policy.Profile) { a.Delegates, a.Delegable = true, true }),
			"mute":                   profile("mute", func(a *policy.Profile) { a.MayAsk, a.EngineTools = false, false }),
			conversation.External:    profile(conversation.External, nil),
		},
		Tools: map[string]policy.ToolRule{
			"clock": {Spec: conversation.ToolSpec{Name: "clock", Idempotent: true}},
			"mail":  {Spec: conversation.ToolSpec{Name: "mail"}},
			"rm": {Spec: conversation.ToolSpec{Name: "rm", Approval: true}, Check: func(args json.RawMessage) error {
				var a struct{ Path string }
				if err := json.Unmarshal(args, &a); err != nil || a.Path == "" {
					return fmt.Errorf("path is missing")
				}
				return nil
			}},
		},
	}
}

// configure puts what a configuration says into a policy.
func configure(t *testing.T, p *policy.Policy, said conversation.Overrides) {
	t.Helper()
	v := reflect.ValueOf(p).Elem()
	for i := range v.NumField() {
		value, ok := said[v.Type().Field(i).Tag.Get("key")]
		if !ok {
			continue
		}
		delete(said, v.Type().Field(i).Tag.Get("key"))
		field := v.Field(i).Addr().Interface()
		err := json.Unmarshal(value, field)
		if d, ok := field.(*time.Duration); ok {
			*d, err = time.ParseDuration(strings.Trim(string(value), `"`))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(said) > 0 {
		t.Fatalf("there are no such policies: %s", said)
	}
}

func newScene(t *testing.T) *scene {
	w := &scene{
		t: t, key: conversation.SessionKey{Tenant: "default", Session: "s"}, rules: testRules(), now: time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC), slot: true,
		keys: map[conversation.Key]conversation.Seq{}, rows: map[conversation.TaskID]conversation.TaskRow{},
	}
	w.load()
	return w
}

func (w *scene) load() {
	w.s, w.tr = New(w.key, w.rules), transcript.New()
	w.asking, w.drafts = conversation.Attempt{}, nil
	for _, e := range w.log {
		if err := w.s.Apply(e); err != nil {
			w.t.Fatal(err)
		}
		w.tr.Add(e)
	}
}

// run executes one line. Words are split at spaces; a word may be a Go string
// or a JSON value without spaces outside of its quotes; name=value sets options.
func (w *scene) run(out *strings.Builder, line string) {
	words := split(line)
	verb, args, opts := words[0], []string{}, map[string]string{}
	for _, word := range words[1:] {
		if k, v, ok := strings.Cut(word, "="); ok && isName(k) {
			opts[k] = unquote(v)
		} else {
			args = append(args, unquote(word))
		}
	}
	arg := func(i int) string {
		if i < len(args) {
			return args[i]
		}
		return ""
	}
	by := conversation.UserID("u")
	if opts["by"] != "" {
		by = conversation.UserID(opts["by"])
	}
	via := conversation.ViaWebSocket
	if i, ok := byName[conversation.Via](opts["via"]); ok && opts["via"] != "" {
		via = conversation.Via(i)
	}
	mode, ok := conversation.ParseMode(opts["mode"])
	if !ok {
		w.t.Fatalf("%s: unknown mode", line)
	}
	switch verb {
	case "create":
		w.decide(out, conversation.Create{Title: opts["title"], Agent: conversation.AgentName(opts["agent"]), Owner: by, Policy: overrides(w.t, opts["policy"]), Admin: opts["admin"] != ""})
	case "fresh": // another session, with nothing of the one before
		*w = *newScene(w.t)
	case "shown": // what followers have been sent of the open step, by item
		step, attempt := w.openStep("")
		for i, text := range args {
			w.drafts = append(w.drafts, conversation.DraftView{Draft: conversation.Draft(step, attempt, i), Text: text})
		}
	case "stopped":
		step, attempt := w.openStep(opts["step"])
		c := conversation.ModelStopped{Step: step, Attempt: attempt}
		if n, err := strconv.Atoi(opts["tokens"]); err == nil {
			c.Usage = &conversation.Usage{OutputTokens: n}
		}
		w.decide(out, c)
	case "config": // what only the configuration can say
		w.stopsLate = w.stopsLate || opts["stops"] == "late"
		if opts["acts"] != "" { // how long it may take to kill it
			a := w.rules.Agents[conversation.Coordinator]
			a.Acts, a.KillTime = true, w.duration(opts["acts"])
			w.rules.Agents[conversation.Coordinator] = a
		}
		if opts["names"] == "true" {
			a := w.rules.Agents[conversation.Coordinator]
			a.Names = true
			w.rules.Agents[conversation.Coordinator] = a
		}
		if opts["judge"] == "true" {
			w.rules.Judge = &policy.Profile{Name: conversation.Judge, Prompt: transcript.JudgePrompt}
		}
		if opts["max_wait"] != "" {
			w.rules.Policy.MaxWait = w.duration(opts["max_wait"])
		}
		if opts["filtered"] != "" {
			w.rules.Policy.Texts.Filtered = opts["filtered"]
		}
		if opts["lease"] != "" {
			w.rules.Policy.OutsideLease = w.duration(opts["lease"])
		}
		if opts["max_steps"] != "" {
			a := w.rules.Agents[conversation.Coordinator]
			a.MaxSteps, _ = strconv.Atoi(opts["max_steps"])
			w.rules.Agents[conversation.Coordinator] = a
		}
		if opts["tools"] != "" {
			a := w.rules.Agents[conversation.Coordinator]
			a.Tools = strings.Split(opts["tools"], ",")
			w.rules.Agents[conversation.Coordinator] = a
		}
		if i, ok := byName[policy.Coverage](opts["coverage"]); ok {
			a, c := w.rules.Agents[conversation.Coordinator], policy.Coverage(i)
			a.Coverage = &c
			w.rules.Agents[conversation.Coordinator] = a
		}
		configure(w.t, &w.rules.Policy, overrides(w.t, opts["policy"]))
		w.load()
	case "sub": // this scene is a sub-session
		w.key.Session = "s/d1"
		if opts["at"] != "" {
			w.key.Session = conversation.SessionID(opts["at"])
		}
		w.load()
		w.decide(out, conversation.Tell{Agent: conversation.AgentName(arg(0)), Owner: by, Objective: arg(1), Policy: overrides(w.t, opts["policy"])})
	case "tell":
		w.decide(out, conversation.Tell{Agent: conversation.AgentName(arg(0)), Owner: by, Objective: arg(1), Policy: overrides(w.t, opts["policy"])})
	case "send":
		if channel, _ := conversation.ParseMode(opts["channel"]); channel != conversation.ModeDefault {
			w.rules.Policy.Channels[via] = channel
		}
		w.decide(out, conversation.Say{
			Author: by, AuthorName: opts["name"], Via: via, ClientMsgID: conversation.ClientMsgID(arg(0)), Text: arg(1), Mode: mode,
			InReplyTo: conversation.MessageID(cmp.Or(opts["question"], string(w.long(opts["reply"])))), Duplicate: w.hint(opts),
		})
		delete(w.rules.Policy.Channels, via)
	case "flood": // so many messages that each read would be a page long
		n, _ := strconv.Atoi(arg(0))
		var unread strings.Builder
		for i := range n {
			w.decide(&unread, conversation.Say{Author: by, Via: via, ClientMsgID: conversation.ClientMsgID(fmt.Sprintf("flood%d", i)), Text: "More.", Mode: mode})
		}
		fmt.Fprintf(out, "%d messages, %d refused\n", n, strings.Count(unread.String(), "error "))
	case "lookup":
		fmt.Fprintf(out, "needs lookup %v\n", len(w.s.LookupKeys(conversation.Say{Author: by, ClientMsgID: conversation.ClientMsgID(arg(0))})) > 0)
	case "seen":
		n, _ := strconv.Atoi(arg(0))
		w.decide(out, conversation.Seen{User: by, Seq: conversation.Seq(n)})
	case "compact":
		n, _ := strconv.Atoi(arg(0))
		w.decide(out, conversation.Compacted{Upto: conversation.Seq(n), Summary: arg(1), TokensBefore: 100, TokensAfter: 10})
	case "tick": // one that comes without being due
		w.decide(out, conversation.Tick{})
	case "wants": // which of the effects up to now are still called for
		for _, e := range w.asked {
			fmt.Fprintf(out, "%-5v %s\n", w.s.stillToDo(e), w.short(describe(e)))
		}
	case "outstanding":
		for _, e := range w.s.Outstanding(w.now) {
			fmt.Fprintf(out, "outstanding %s\n", w.short(describe(e)))
		}
	case "answer":
		w.decide(out, conversation.Answer{Author: by, AuthorName: opts["name"], Via: via, ClientMsgID: conversation.ClientMsgID(arg(0)), Question: conversation.QuestionID(arg(1)), Text: arg(2)})
	case "reply":
		w.decide(out, conversation.Reply{Author: by, AuthorName: opts["name"], Via: conversation.ViaHTTP, ClientMsgID: conversation.ClientMsgID(arg(0)), Task: conversation.TaskID(w.long(arg(1))), Text: arg(2)})
	case "edit":
		w.decide(out, conversation.Edit{By: by, Message: w.long(arg(0)), Text: arg(1)})
	case "withdraw":
		w.decide(out, conversation.Withdraw{By: by, Message: w.long(arg(0))})
	case "move":
		w.decide(out, conversation.Move{By: by, Message: w.long(arg(0)), Before: w.long(opts["before"])})
	case "cancel":
		c := conversation.Cancel{By: conversation.ByUser, Task: conversation.TaskID(w.long(arg(0))), Reason: opts["reason"], Drop: opts["waiting"] == "drop"}
		if opts["id"] != "" {
			c.Author, c.ClientMsgID, c.Duplicate = by, conversation.ClientMsgID(opts["id"]), w.hint(opts)
		}
		if opts["by"] == "parent" {
			c.By = conversation.ByParent
		}
		w.decide(out, c)
	case "update":
		up := conversation.Update{By: by, Agent: conversation.AgentName(opts["agent"]), Policy: overrides(w.t, opts["policy"]), Admin: opts["admin"] != "", Unnamed: opts["unnamed"] != ""}
		if title, given := opts["title"]; given {
			up.Title = &title
		}
		w.decide(out, up)
	case "members": // "USER ROLE", "-" for none
		members := map[conversation.UserID]access.Role{}
		for _, arg := range args {
			user, word, _ := strings.Cut(arg, " ")
			role, ok := access.ParseRole(word)
			if !ok && word != "-" {
				w.t.Fatalf("%s: unknown role", line)
			}
			members[conversation.UserID(user)] = role
		}
		w.decide(out, conversation.Update{By: by, Members: members})
	case "close":
		w.decide(out, conversation.Close{Reason: arg(0)})
	case "triaged":
		w.decide(out, conversation.Triaged{Report: arg(0)})
	case "clear":
		w.decide(out, conversation.Clear{By: by})
	case "part":
		n, _ := strconv.Atoi(opts["index"])
		source := opts["source"]
		if strings.HasPrefix(source, "m") {
			source = string(w.long(source))
		}
		w.decide(out, conversation.AddPart{Author: by, Source: source, Index: conversation.PartIndex(n), Indexed: opts["index"] != "", Generation: number(opts["gen"]), Text: arg(0), Final: opts["final"] == "true", ClientMsgID: conversation.ClientMsgID(opts["id"]), Duplicate: w.hint(opts), NextFree: conversation.PartIndex(number(opts["next"]))})
	case "claim":
		w.decide(out, conversation.HandOut{Runtime: conversation.RuntimeName(arg(0))})
	case "says":
		status, ok := conversation.ParseRuntimeState(arg(0))
		if !ok {
			w.t.Fatalf("%s: unknown status", line)
		}
		w.decide(out, conversation.RuntimeSays{
			Message: w.long(arg(1)), Status: status, Generation: number(opts["gen"]), Error: opts["error"], Permanent: opts["permanent"] == "true",
		})
	case "model":
		step, attempt := w.openStep(opts["step"])
		w.callEnded(step, attempt)
		w.decide(out, conversation.ModelAnswered{Step: step, Attempt: attempt, Model: "test", Answer: conversation.ModelAnswer{Items: items(args), Stop: stopReason(opts["stop"])}, Shown: w.openMessages()})
	case "fail":
		step, attempt := w.openStep(opts["step"])
		w.callEnded(step, attempt)
		var after time.Duration
		if opts["after"] != "" {
			after = w.duration(opts["after"])
		}
		w.decide(out, conversation.ModelFailed{
			Step: step, Attempt: attempt, Model: "test", Failure: conversation.Failure{Code: conversation.Code(arg(0)), Message: "the model failed"},
			Permanent: opts["permanent"] == "true", NothingRan: opts["nothing"] == "ran", RetryAfter: after, Jitter: 0.5,
		})
	case "tool":
		status, ok := byName[conversation.CallStatus](arg(1))
		if !ok {
			w.t.Fatalf("%s: unknown status", line)
		}
		w.decide(out, conversation.ToolDone{Call: conversation.CallID(arg(0)), Status: conversation.CallStatus(status), Result: arg(2)})
	case "asks": // a tool, in the middle of its call
		c := conversation.ToolAsks{Call: conversation.CallID(arg(0)), Text: arg(1)}
		if opts["choices"] != "" {
			c.Choices = strings.Split(opts["choices"], ",")
		}
		w.decide(out, c)
	case "unasks": // it does not wait for the answer any more
		w.decide(out, conversation.ToolAskEnds{Call: conversation.CallID(arg(0))})
	case "delegation":
		status, ok := byName[conversation.CallStatus](arg(1))
		if !ok {
			w.t.Fatalf("%s: unknown status", line)
		}
		w.decide(out, conversation.DelegationDone{Delegation: conversation.CallID(arg(0)), Status: conversation.CallStatus(status), Summary: arg(2)})
	case "asked":
		c := conversation.DelegationAsked{Delegation: conversation.CallID(arg(0)), Question: conversation.QuestionID(arg(1)), Text: arg(2)}
		if opts["expires"] != "" {
			c.ExpiresAt = w.now.Add(w.duration(opts["expires"]))
		}
		if opts["tool"] != "" {
			c.Approval = &conversation.Approval{Call: "c1", Tool: opts["tool"], Args: opts["args"]}
		}
		w.decide(out, c)
	case "questions":
		var open []conversation.QuestionID
		for _, id := range args[1:] {
			open = append(open, conversation.QuestionID(id))
		}
		w.decide(out, conversation.DelegationQuestions{Delegation: conversation.CallID(arg(0)), Open: open})
	case "closed":
		c := conversation.DelegationQuestionClosed{Delegation: conversation.CallID(arg(0)), Question: conversation.QuestionID(arg(1)), Reason: conversation.QuestionExpired}
		if d, ok := opts["default"]; ok {
			c.Default = &d
		}
		w.decide(out, c)
	case "grant":
		slot := w.slot
		w.slot = true
		w.decide(out, conversation.SlotGranted{})
		w.slot = slot
	case "slot":
		w.slot = arg(0) == "on"
	case "wait":
		w.now = w.now.Add(w.duration(arg(0)))
		if at := w.s.Standing().NextTick; !at.IsZero() && !at.After(w.now) {
			w.decide(out, conversation.Tick{})
		}
	case "drain":
		w.decide(out, conversation.Drain{})
	case "crash":
		w.load()
		lost := conversation.Recovered{Jitter: 0.5}
		if opts["cause"] == "moved" {
			lost.Cause = conversation.CauseMoved
		}
		w.decide(out, lost)
		for _, e := range w.s.Outstanding(w.now) {
			fmt.Fprintf(out, "outstanding %s\n", w.short(describe(e)))
		}
	case "request":
		w.request(out)
	case "state":
		v := w.s.View()
		for _, x := range v.Tasks {
			fmt.Fprintf(out, "%s\n", w.short(describe(x)))
		}
		for _, x := range v.Inbox {
			fmt.Fprintf(out, "%s\n", w.short(describe(x)))
		}
		for _, x := range v.Questions {
			fmt.Fprintf(out, "%s\n", w.short(describe(x)))
		}
		fmt.Fprintf(out, "due %s tick %s", clockText(w.s.Standing().WakeAt), clockText(w.s.Standing().NextTick))
		if w.s.Standing().Busy {
			out.WriteString(" busy")
		}
		if w.s.Standing().HoldsSlot {
			out.WriteString(" slot")
		}
		if c := w.s.Standing().Claim; c != nil {
			out.WriteString(" " + strings.ReplaceAll(w.short(describe(*c)), "Claimable", "claimable"))
		}
		if w.s.wouldQueue() {
			out.WriteString(" would queue")
		}
		out.WriteString("\n")
	default:
		w.t.Fatalf("unknown command %q", line)
	}
}

// decide gives a command, prints what came of it, and checks what must hold
// after every command.
func (w *scene) decide(out *strings.Builder, c conversation.Command) {
	d, wanted := w.s.decide(conversation.Inputs{At: w.now, Slot: w.slot, Asking: w.asking, Shown: w.drafts}, c)
	w.follow(wanted)
	if d.Err != nil {
		fmt.Fprintf(out, "error %s: %s%s\n", d.Err.Code, w.short(d.Err.Message), toRuntime(d.Err))
	} else if r := w.short(describe(d.Receipt)); external(c) {
		fmt.Fprintf(out, "ok %s\n", strings.TrimPrefix(r, "Receipt"))
	}
	for _, e := range d.Events {
		task := ""
		if e.Task != "" {
			task = " " + w.short(string(e.Task))
		}
		fmt.Fprintf(out, "%3d %s%s %s\n", e.Seq, e.Body.Kind(), task, w.short(body(e.Body)))
		w.tr.Add(e)
	}
	for _, cursor := range d.Cursors {
		fmt.Fprintf(out, "    cursor %s %d\n", cursor.User, cursor.Seq)
	}
	for _, e := range wanted {
		fmt.Fprintf(out, "    -> %s\n", w.short(describe(e)))
		if !effects.Releases(e) {
			w.asked = append(w.asked, e)
		}
	}
	w.log = append(w.log, d.Events...)
	w.check(d, wanted)
	again := New(w.key, w.rules)
	for _, e := range w.log {
		if err := again.Apply(e); err != nil {
			w.t.Fatal(err)
		}
	}
	if a, b := string(snapshot(w.t, w.s)), string(snapshot(w.t, again)); a != b {
		w.t.Fatalf("after %s the replayed session differs:\nlive   %s\nreplay %s", c.Name(), a, b)
	}
	restored, err := Restore(w.key, w.rules, snapshot(w.t, w.s))
	if err != nil || string(snapshot(w.t, restored)) != string(snapshot(w.t, w.s)) {
		w.t.Fatalf("after %s the restored session differs: %v", c.Name(), err)
	}
}

// snapshot is a session's; there must be one after every command.
func snapshot(t testing.TB, s *Session) []byte {
	t.Helper()
	data, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// follow starts and stops model calls as the shell does.
func (w *scene) follow(effects []conversation.Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case conversation.AskModel:
			w.drafts = nil
			if w.stopsLate {
				w.asking = conversation.Attempt{Step: e.Step, N: e.Attempt}
			}
		case conversation.StopModel:
			w.asking, w.drafts = conversation.Attempt{}, nil
		}
	}
}

func stopReason(name string) conversation.StopReason {
	return map[string]conversation.StopReason{"length": conversation.StopLength, "filtered": conversation.StopFiltered, "refused": conversation.StopRefused}[name]
}

// callEnded: before its outcome is decided the shell has forgotten the call.
func (w *scene) callEnded(step conversation.StepNumber, attempt int) {
	if w.asking == (conversation.Attempt{Step: step, N: attempt}) {
		w.asking, w.drafts = conversation.Attempt{}, nil
	}
}

// check is what must hold of every commit: keys are new, each task has the row
// that says how it stands, and a model is shown every call with its result, the same
// from a transcript that was rebuilt.
func (w *scene) check(d conversation.Decided, effects []conversation.Effect) {
	for _, k := range d.Keys {
		if at, there := w.keys[k.Key]; there {
			w.t.Fatalf("the key %v of %d is stored already, at %d", k.Key, k.Seq, at)
		}
		w.keys[k.Key] = k.Seq
	}
	for _, row := range d.Rows {
		w.rows[row.Task] = row
	}
	for _, e := range d.Events {
		if b, ok := e.Body.(conversation.TaskStatusChanged); ok && b.New.Ended() && w.rows[e.Task].Status != b.New {
			w.t.Fatalf("the row of %s says %s instead of %s", e.Task, w.rows[e.Task].Status, b.New)
		}
	}
	for _, t := range w.s.View().Tasks {
		if row := w.rows[t.Task]; row.Status != t.Status || row.Trigger != t.Trigger {
			w.t.Fatalf("the row of %s says %s, trigger %s, instead of %s, trigger %s", t.Task, row.Status, row.Trigger, t.Status, t.Trigger)
		}
	}
	for _, e := range effects {
		ask, ok := e.(conversation.AskModel)
		if !ok {
			continue
		}
		again := transcript.New()
		for _, e := range w.log {
			again.Add(e)
		}
		r := w.tr.RequestWith(w.key, w.rules, w.s.Own(), ask)
		if live, rebuilt := inWords(w.t, r), inWords(w.t, again.RequestWith(w.key, w.rules, w.s.Own(), ask)); live != rebuilt {
			w.t.Fatalf("the rebuilt transcript differs:\nlive    %s\nrebuilt %s", live, rebuilt)
		}
		window := windowed(w.s, w.rules, w.log)
		if live, rebuilt := inWords(w.t, r), inWords(w.t, window.RequestWith(w.key, w.rules, w.s.Own(), ask)); live != rebuilt {
			w.t.Fatalf("the transcript rebuilt from %+v differs:\nlive    %s\nrebuilt %s", w.s.TranscriptRanges(), live, rebuilt)
		}
		results := map[string]int{}
		for _, entry := range r.All() {
			for _, i := range entry.Items {
				if i.Kind == conversation.ItemCall {
					results[i.ID]++
				}
			}
			if entry.Role == conversation.RoleTool {
				results[entry.CallID]--
			}
		}
		for id, n := range results {
			if n != 0 {
				w.t.Fatalf("step %d: call %s is shown without its result", ask.Step, id)
			}
		}
	}
	w.readModels(d)
}

// windowed is the transcript as the shell reads it again: the original request,
// and the part of the log that the session says.
func windowed(s *Session, rules *policy.Rules, log []conversation.Event) *transcript.Transcript {
	t, _ := rebuilt(s, rules, log)
	return t
}

// rebuilt also says how many events that takes.
func rebuilt(s *Session, rules *policy.Rules, log []conversation.Event) (t *transcript.Transcript, events int) {
	t = transcript.Of(s.Key(), rules)
	feed := func(events []conversation.Event, take func(conversation.Event)) int {
		for _, e := range events {
			take(e)
		}
		return len(events)
	}
	of := s.TranscriptRanges()
	t.Hear(of.Voices)
	t.Clear(of.Cleared)
	if r := of.Origin; r != nil {
		events += feed(log[r.After:r.Before-1], t.Pin)
	}
	for _, r := range of.Own {
		events += feed(log[r.After:r.Before-1], func(e conversation.Event) { t.AddOwn(e, of.Tasks) })
	}
	return t, events + feed(log[of.After:], t.Add)
}

// hint is the store's knowledge of a key, as the shell would bring it:
// hint=m1 is a message with the same text, hint=m1,other one with another.
func (w *scene) hint(opts map[string]string) *conversation.Duplicate {
	if opts["hint"] == "" {
		return nil
	}
	id, _, other := strings.Cut(opts["hint"], ",")
	if strings.HasPrefix(id, "t") {
		return &conversation.Duplicate{Task: conversation.TaskID(w.long(id)), Seq: 99, SameText: !other}
	}
	return &conversation.Duplicate{Message: w.long(id), Seq: 99, SameText: !other}
}

func (w *scene) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

// openMessages are those of the open step's request.
func (w *scene) openMessages() []conversation.OpenMessage {
	for _, e := range w.s.Outstanding(w.now) {
		if ask, ok := e.(conversation.AskModel); ok {
			return w.tr.RequestWith(w.key, w.rules, w.s.Own(), ask).Open
		}
	}
	return nil
}

// request prints what the open step's model is shown.
func (w *scene) request(out *strings.Builder) {
	for _, e := range w.s.Outstanding(w.now) {
		ask, ok := e.(conversation.AskModel)
		if !ok {
			continue
		}
		r := w.tr.RequestWith(w.key, w.rules, w.s.Own(), ask)
		for _, entry := range r.All() {
			switch entry.Role {
			case conversation.RoleUser:
				fmt.Fprintf(out, "user      %q\n", w.short(entry.Text))
			case conversation.RoleTool:
				fmt.Fprintf(out, "tool %-4s %q\n", entry.CallID, w.short(entry.Text))
			case conversation.RoleAssistant:
				for _, i := range entry.Items {
					if i.Kind == conversation.ItemText {
						fmt.Fprintf(out, "assistant %q\n", i.Text)
					} else {
						fmt.Fprintf(out, "assistant %s %s%s\n", i.ID, i.Tool, i.Args)
					}
				}
			}
		}
		if r.Note != "" {
			fmt.Fprintf(out, "note      %q\n", w.short(r.Note))
		}
		for _, c := range r.Running {
			fmt.Fprintf(out, "running   %s %s\n", c.Call, c.Tool)
		}
		if len(r.Tools) == 0 {
			fmt.Fprintf(out, "no tools\n")
		}
		for _, tool := range r.Tools[max(0, len(r.Tools)-len(w.s.Own().Callers())):] {
			fmt.Fprintf(out, "caller's  %s %q %s\n", tool.Name, tool.Description, tool.Schema)
		}
		if own := w.s.Own(); own != nil && strings.HasSuffix(r.System, own.Instructions) {
			fmt.Fprintf(out, "system    %q\n", r.System)
		}
	}
}

func external(c conversation.Command) bool {
	switch c.(type) {
	case conversation.ModelAnswered, conversation.ModelFailed, conversation.ModelStopped, conversation.ToolDone, conversation.ToolAsks, conversation.ToolAskEnds, conversation.DelegationDone, conversation.DelegationAsked, conversation.DelegationQuestions, conversation.DelegationQuestionClosed, conversation.Tick, conversation.Recovered, conversation.Drain, conversation.SlotGranted:
		return false
	default:
		return true
	}
}

func (w *scene) openStep(given string) (conversation.StepNumber, int) {
	if given != "" {
		a, b, _ := strings.Cut(given, ".")
		step, _ := strconv.Atoi(a)
		attempt, _ := strconv.Atoi(b)
		return conversation.StepNumber(step), attempt
	}
	for _, t := range w.s.state.Tasks {
		if t.Step != nil {
			return t.Step.N, t.Step.Attempt
		}
	}
	return w.s.state.Step, 1
}

// long and short translate between "m1" in transcripts and "m1-s".
func (w *scene) long(id string) conversation.MessageID {
	if id == "" || strings.Contains(id, "-") {
		return conversation.MessageID(id)
	}
	return conversation.MessageID(id + "-" + string(w.key.Session))
}

func (w *scene) short(text string) string {
	return strings.ReplaceAll(text, "-"+string(w.key.Session), "")
}

// items reads an answer: quoted words are text, tool{json} is a call. Call ids
// are k1, k2… in the answer's order, or given before a colon. Text after a ~ was
// streamed.
func items(args []string) []conversation.Item {
	var all []conversation.Item
	for _, a := range args {
		if tool, rest, ok := strings.Cut(a, "{"); ok && isName(tool) {
			id, name, named := strings.Cut(tool, ":")
			if !named {
				id, name = fmt.Sprintf("k%d", len(all)+1), tool
			}
			all = append(all, conversation.Item{Kind: conversation.ItemCall, ID: id, Tool: name, Args: "{" + rest})
			continue
		}
		if streamed, ok := strings.CutPrefix(a, "~"); ok {
			all = append(all, conversation.Item{Kind: conversation.ItemText, Text: unquote(streamed), Streamed: true})
			continue
		}
		all = append(all, conversation.Item{Kind: conversation.ItemText, Text: a})
	}
	return all
}

func overrides(t *testing.T, text string) conversation.Overrides {
	if text == "" {
		return nil
	}
	var o conversation.Overrides
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatalf("policy %s: %v", text, err)
	}
	return o
}

func isName(s string) bool {
	for _, r := range s {
		if r != ':' && r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}

// split cuts a line at spaces that are not inside quotes or braces.
func split(line string) []string {
	var words []string
	depth, quoted, start := 0, false, -1
	for i := 0; i <= len(line); i++ {
		end := i == len(line)
		if !end {
			switch c := line[i]; {
			case quoted && c == '\\':
				i++
				continue
			case c == '"':
				quoted = !quoted
			case !quoted && (c == '{' || c == '['):
				depth++
			case !quoted && (c == '}' || c == ']'):
				depth--
			}
			end = line[i] == ' ' && !quoted && depth == 0
		}
		if end && start >= 0 {
			words = append(words, line[start:i])
			start = -1
		} else if !end && start < 0 {
			start = i
		}
	}
	return words
}

func unquote(s string) string {
	if u, err := strconv.Unquote(s); err == nil {
		return u
	}
	return s
}

// describe prints a struct's fields that are not zero.
func describe(v any) string {
	rv := reflect.ValueOf(v)
	return rv.Type().Name() + "{" + fields(rv) + "}"
}

func body(b conversation.EventBody) string { return "{" + fields(reflect.ValueOf(b)) + "}" }

func fields(rv reflect.Value) string {
	var parts []string
	for i := range rv.NumField() {
		f, ft := rv.Field(i), rv.Type().Field(i)
		if f.IsZero() {
			continue
		}
		if ft.Anonymous {
			parts = append(parts, fields(f))
			continue
		}
		parts = append(parts, lowerFirst(ft.Name)+" "+value(f))
	}
	return strings.Join(parts, ", ")
}

func value(f reflect.Value) string {
	switch x := f.Interface().(type) {
	case time.Time:
		return clockText(x)
	case json.RawMessage:
		return string(x)
	case fmt.Stringer:
		return x.String()
	}
	if o, ok := f.Interface().(conversation.Overrides); ok {
		data, _ := json.Marshal(o)
		return string(data)
	}
	switch f.Kind() {
	case reflect.String:
		if s := f.String(); strings.ContainsAny(s, " \"\n{") || s == "" {
			return strconv.Quote(s)
		}
		return f.String()
	case reflect.Pointer:
		return value(f.Elem())
	case reflect.Slice:
		var all []string
		for i := range f.Len() {
			all = append(all, value(f.Index(i)))
		}
		return "[" + strings.Join(all, " ") + "]"
	case reflect.Struct:
		return "{" + fields(f) + "}"
	default:
		return fmt.Sprint(f.Interface())
	}
}

func lowerFirst(s string) string { return strings.ToLower(s[:1]) + s[1:] }

func clockText(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Format("15:04:05.000")
}

// diff shows the first lines that differ.
func diff(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := 0; i < len(w) || i < len(g); i++ {
		a, b := "", ""
		if i < len(w) {
			a = w[i]
		}
		if i < len(g) {
			b = g[i]
		}
		if a != b {
			return fmt.Sprintf("line %d\n  want %s\n  got  %s", i+1, a, b)
		}
	}
	return ""
}

// byName is the member of an enumeration that is called so.
func byName[T interface {
	~uint8
	fmt.Stringer
}](name string) (T, bool) {
	for i := range T(50) {
		if i.String() == name {
			return i, true
		}
	}
	return 0, false
}

// number reads a number of an option; 0 if it is not given.
func number(s string) uint32 {
	n, _ := strconv.ParseUint(s, 10, 32)
	return uint32(n)
}

// toRuntime is what an error tells an outside runtime beside its sentence.
func toRuntime(e *conversation.Error) (said string) {
	if e.NextPart != nil {
		said += fmt.Sprint(" (next part ", *e.NextPart, ")")
	}
	if e.Generation > 0 {
		said += fmt.Sprint(" (generation ", e.Generation, ")")
	}
	if e.Code == conversation.Conflict && e.TaskStatus != 0 {
		said += fmt.Sprint(" (status ", e.TaskStatus, ")")
	}
	return said
}
