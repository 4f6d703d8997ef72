package conversation

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

var allCommands = []Command{
	Create{}, Say{}, Answer{}, Reply{}, Edit{}, Withdraw{}, Move{}, Cancel{}, Update{}, Close{}, Seen{}, AddPart{}, Tell{}, Recovered{}, Tick{},
	SlotGranted{}, Drain{}, ModelAnswered{}, ModelFailed{}, ToolDone{}, DelegationAsked{}, DelegationQuestions{}, DelegationQuestionClosed{}, DelegationDone{}, Compacted{},
}

var allBodies = []EventBody{
	SessionCreated{}, SessionUpdated{}, SessionClosed{}, MessageAccepted{}, MessageEdited{}, MessageWithdrawn{}, MessageMoved{}, MessageResolved{},
	TaskStatusChanged{}, TaskCancelling{}, StepStarted{}, StepFinished{}, PartialResponse{}, Response{}, Asked{}, QuestionAnswered{}, QuestionClosed{},
	ToolStarted{}, ToolFinished{}, DelegationStarted{}, DelegationFinished{}, CoverageNudge{}, ContextCompacted{},
}

var allEffects = []Effect{
	AskModel{}, RunTool{}, StartDelegation{}, AmendDelegation{}, RouteAnswer{}, WantSlot{}, Triage{}, Report{}, ReportQuestion{}, ReportQuestions{}, ReportQuestionClosed{},
	StopModel{}, StopCall{}, RefuseDelegation{},
}

// source is the package's own text, without its tests.
func source(t *testing.T) []*ast.File {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

// implementers are the types with a marker method such as isEvent.
func implementers(files []*ast.File, marker string) []string {
	var names []string
	for _, f := range files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil && fn.Name.Name == marker {
				names = append(names, fn.Recv.List[0].Type.(*ast.Ident).Name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// cases are the types that the type switches of a function name.
func cases(files []*ast.File, function string) map[string]bool {
	found := map[string]bool{}
	for _, f := range files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Name.Name != function {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				if s, ok := n.(*ast.TypeSwitchStmt); ok {
					for _, c := range s.Body.List {
						for _, e := range c.(*ast.CaseClause).List {
							if id, ok := e.(*ast.Ident); ok {
								found[id.Name] = true
							}
						}
					}
				}
				return true
			})
		}
	}
	return found
}

// made are the types of which the package makes values: T{…} and T(x).
func made(files []*ast.File) map[string]bool {
	found := map[string]bool{}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				if id, ok := n.Type.(*ast.Ident); ok {
					found[id.Name] = true
				}
			case *ast.CallExpr:
				if id, ok := n.Fun.(*ast.Ident); ok {
					found[id.Name] = true
				}
			}
			return true
		})
	}
	return found
}

func typeNames[T any](values []T) []string {
	var names []string
	for _, v := range values {
		names = append(names, reflect.TypeOf(v).Name())
	}
	slices.Sort(names)
	return names
}

// The closed sets are what the tests below think they are.
func TestVocabularyIsKnown(t *testing.T) {
	files := source(t)
	for marker, want := range map[string][]string{
		"isCommand": typeNames(allCommands), "isEvent": typeNames(allBodies), "isEffect": typeNames(allEffects),
	} {
		if got := implementers(files, marker); !slices.Equal(got, want) {
			t.Errorf("%s: the package has\n\t%v\nthe test knows\n\t%v", marker, got, want)
		}
	}
}

// Every kind of event has one body, one name, a case in Apply, a case in the
// transcript or a reason not to have one, and is made somewhere.
func TestEventsAreCovered(t *testing.T) {
	files := source(t)
	apply, makes := cases(files, "Apply"), made(files)
	var kinds []EventKind
	names := map[string]bool{}
	for _, b := range allBodies {
		kinds = append(kinds, b.Kind())
		name := reflect.TypeOf(b).Name()
		if !apply[name] {
			t.Errorf("Apply has no case for %s", name)
		}
		if !makes[name] {
			t.Errorf("nothing makes a %s", name)
		}
		if s := b.Kind().String(); names[s] || s == "" || strings.HasPrefix(s, "unknown") {
			t.Errorf("%s is called %q", name, s)
		} else {
			names[s] = true
		}
	}
	slices.Sort(kinds)
	if !slices.Equal(kinds, EventKinds()) {
		t.Errorf("the bodies have the kinds %v, there are %v", kinds, EventKinds())
	}
	shown := cases(files, "Add")
	for _, b := range allBodies {
		switch b.(type) {
		case SessionCreated, SessionUpdated, SessionClosed: // say nothing to a model
		case MessageWithdrawn, MessageMoved: // message_resolved and the order of "read" say it
		case TaskCancelling: // task_status follows
		default:
			if name := reflect.TypeOf(b).Name(); !shown[name] {
				t.Errorf("the transcript has no case for %s", name)
			}
		}
	}
}

// A log that this program did not write is an error, never a panic: events with
// nothing in them apply, out of order or of an unknown kind they do not.
func TestApplyForeignEvents(t *testing.T) {
	for _, b := range allBodies {
		s := New(SessionKey{"t", "s"}, testRules())
		for i, body := range []EventBody{SessionCreated{Agent: Coordinator}, b, b} {
			if err := s.Apply(Event{Seq: Seq(i + 1), Task: "t1-s", Body: body}); err != nil {
				t.Errorf("%T: %v", body, err)
			}
		}
		tr := NewTranscript()
		tr.Add(Event{Seq: 1, Task: "t1-s", Body: b})
	}
	s := New(SessionKey{"t", "s"}, testRules())
	if err := s.Apply(Event{Seq: 2, Body: SessionCreated{}}); err == nil {
		t.Error("a log with a hole was applied")
	}
	if err := s.Apply(Event{Seq: 1, Body: future{}}); !errors.Is(err, ErrTooNew) {
		t.Errorf("an unknown event: %v", err)
	}
}

type future struct{}

func (future) Kind() EventKind { return 200 }
func (future) isEvent()        {}

// Every command is known in each kind of session, in every state of it; it is
// refused with a code or it takes effect, but it never panics.
func TestCommandsAreCovered(t *testing.T) {
	names := map[string]bool{}
	for _, c := range allCommands {
		if names[c.Name()] || c.Name() == "" {
			t.Errorf("%T is called %q", c, c.Name())
		}
		names[c.Name()] = true
		for _, prepare := range [][]string{
			{},
			{"create"},
			{"create", `send a "one"`},
			{"create", `send a "one"`, `model k1:askUser{"question":"Why?"} k2:mail{} k3:delegate{"agent":"researcher","objective":"x"} k4:rm{"path":"/a"}`},
			{"create", `send a "one"`, "model k1:mail{}", "cancel"},
			{"create agent=outside", `send a "one"`},
			{`sub researcher "x"`},
			{`sub researcher "x"`, `model "1"`},
		} {
			w := script(t, prepare...)
			d := w.s.Decide(Given{At: w.now, Slot: true}, c)
			if d.Err != nil && d.Err.Code == Internal {
				t.Errorf("%T after %q: %v", c, prepare, d.Err)
			}
			if d.Err != nil && len(d.Events) > 0 {
				t.Errorf("%T after %q: refused, and yet %d events", c, prepare, len(d.Events))
			}
			if d.Err == nil && d.Receipt.Seq != w.s.Head() && !d.Receipt.Duplicate && len(d.Events) > 0 && d.Receipt.Message == "" {
				t.Errorf("%T after %q: receipt %+v, head %d", c, prepare, d.Receipt, w.s.Head())
			}
		}
	}
}

// Every effect is made somewhere, and Wants judges every acquiring one whose
// cause may be gone when its commit is durable.
func TestEffectsAreCovered(t *testing.T) {
	files := source(t)
	wants, makes := cases(files, "Wants"), made(files)
	releasing := []string{"RefuseDelegation", "StopCall", "StopModel"}
	for _, e := range allEffects {
		name := reflect.TypeOf(e).Name()
		if !makes[name] {
			t.Errorf("nothing makes a %s", name)
		}
		if e.Acquiring() == slices.Contains(releasing, name) {
			t.Errorf("%s: acquiring %v", name, e.Acquiring())
		}
		if e.Acquiring() && !wants[name] && name != "Triage" { // an order of messages harms nothing when it comes late
			t.Errorf("Wants has no case for %s", name)
		}
	}
}

// M-09 M-10 M-12 N-01: the keys of a commit: one for each message with a client
// id and each part with a source; none for a promoted part, which is stored
// already, and none for a plain one (M-14).
func TestKeys(t *testing.T) {
	events := []Event{
		{Seq: 1, Body: MessageAccepted{Message: "m1-s", Author: "u", ClientMsgID: "a"}},
		{Seq: 2, Body: MessageAccepted{Message: "m2-s", Author: "u"}},
		{Seq: 3, Body: PartialResponse{Part{Source: "m1-s", Index: 0}}},
		{Seq: 4, Body: PartialResponse{Part{}}},
		{Seq: 5, Body: Response{Part: Part{Source: "m1-s", Index: 1}}},
		{Seq: 6, Body: Response{Part: Part{Source: "m1-s", Index: 1}, Promoted: true}},
		{Seq: 7, Body: Response{Part: Part{Source: "ext:7"}, ResponseKind: ResponseError}},
	}
	want := []KeyAt{
		{Key{Author: "u", Client: "a"}, 1}, {Key{Source: "m1-s"}, 3}, {Key{Source: "m1-s", Part: 1}, 5}, {Key{Source: "ext:7"}, 7},
	}
	if got := Keys(events); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A snapshot that is of no use is an error, so that the log is replayed instead.
func TestRestoreBadSnapshots(t *testing.T) {
	for _, data := range []string{"", "{", "[]", `{}`, `{"Version":0}`, `{"Version":99}`, `{"Version":"1"}`} {
		if _, err := Restore(SessionKey{"t", "s"}, testRules(), []byte(data)); err == nil {
			t.Errorf("%q was taken for a snapshot", data)
		}
	}
}

// A clock that jumps back does not take the session's time with it.
func TestTimeNeverDecreases(t *testing.T) {
	w := script(t, "create", "wait 1h", `send a "one"`)
	w.now = w.now.Add(-30 * 60 * 1e9)
	var out strings.Builder
	w.run(&out, `send b "two"`)
	w.run(&out, `model "1"`)
	for i := 1; i < len(w.log); i++ {
		if w.log[i].At.Before(w.log[i-1].At) {
			t.Errorf("event %d is of %v, the one before of %v", w.log[i].Seq, w.log[i].At, w.log[i-1].At)
		}
	}
}

// What models and tools say is stored as valid UTF-8.
func TestInvalidUTF8(t *testing.T) {
	w := script(t, "create", `send a "one"`)
	d := w.s.Decide(Given{At: w.now}, ModelAnswered{Step: 1, Attempt: 1, Answer: ModelAnswer{Items: []Item{{Kind: ItemText, Text: "a\xffb"}}}})
	var text string
	for _, e := range d.Events {
		if r, ok := e.Body.(Response); ok {
			text = r.Text
		}
	}
	if text != "a\uFFFDb" {
		t.Errorf("the part is %q", text)
	}
}
