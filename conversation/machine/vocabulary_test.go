package machine

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

	"parley/conversation"
	"parley/conversation/machine/internal/effects"
	"parley/conversation/transcript"
)

// sources is the text of a package, without its tests.
func sources(t *testing.T, dir string) []*ast.File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
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
							found[typeName(e)] = true
						}
					}
				}
				return true
			})
		}
	}
	return found
}

// typeName is the name of a type of the words' package, as T or as conversation.T.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.Ident:
		return e.Name
	default:
		return ""
	}
}

// made are the types of which the package makes values: T{…} and T(x).
func made(files []*ast.File) map[string]bool {
	found := map[string]bool{}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				found[typeName(n.Type)] = true
			case *ast.CallExpr:
				found[typeName(n.Fun)] = true
			}
			return true
		})
	}
	return found
}

// Every kind of event has one body, one name, a case in Apply, a case in the
// transcript or a reason not to have one, and is made somewhere.
func TestEventsAreCovered(t *testing.T) {
	files := sources(t, ".")
	apply, makes := cases(sources(t, "internal/state"), "Apply"), made(append(files, sources(t, "internal/settings")...))
	for _, b := range conversation.EventBodies() {
		name := reflect.TypeOf(b).Name()
		if !apply[name] {
			t.Errorf("Apply has no case for %s", name)
		}
		if !makes[name] {
			t.Errorf("nothing makes a %s", name)
		}
	}
	shown := cases(sources(t, "../transcript"), "take")
	for _, b := range conversation.EventBodies() {
		switch b.(type) {
		case conversation.SessionCreated, conversation.SessionUpdated, conversation.SessionClosed: // say nothing to a model
		case conversation.MessageWithdrawn, conversation.MessageMoved: // message_resolved and the order of "read" say it
		case conversation.TaskCancelling: // task_status follows
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
	for _, b := range conversation.EventBodies() {
		s := New(conversation.SessionKey{Tenant: "t", Session: "s"}, testRules())
		for i, body := range []conversation.EventBody{conversation.SessionCreated{Agent: conversation.Coordinator}, b, b} {
			if err := s.Apply(conversation.Event{Seq: conversation.Seq(i + 1), Task: "t1-s", Body: body}); err != nil {
				t.Errorf("%T: %v", body, err)
			}
		}
		tr := transcript.New()
		tr.Add(conversation.Event{Seq: 1, Task: "t1-s", Body: b})
	}
	s := New(conversation.SessionKey{Tenant: "t", Session: "s"}, testRules())
	if err := s.Apply(conversation.Event{Seq: 2, Body: conversation.SessionCreated{}}); err == nil {
		t.Error("a log with a hole was applied")
	}
	if err := s.Apply(conversation.Event{Seq: 1, Body: future{}}); !errors.Is(err, conversation.ErrTooNew) {
		t.Errorf("an unknown event: %v", err)
	}
}

type future struct{ conversation.EventBody }

func (future) Kind() conversation.EventKind { return 200 }

// Every command is known in each kind of session, in every state of it; it is
// refused with a code or it takes effect, but it never panics.
func TestCommandsAreCovered(t *testing.T) {
	for _, c := range conversation.Commands() {
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
			d := w.s.Decide(conversation.Inputs{At: w.now, Slot: true}, c)
			if d.Err != nil && d.Err.Code == conversation.Internal {
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

// Every effect is made somewhere. One that starts something which goes on is
// judged again when its commit is durable, and is outstanding after a load.
func TestEffectsAreCovered(t *testing.T) {
	files := sources(t, ".")
	inner := sources(t, "internal/effects")
	judged, makes := cases(inner, "StillToDo"), made(append(files, inner...))
	var releasing, going []string
	for _, e := range conversation.Effects() {
		name := reflect.TypeOf(e).Name()
		if !makes[name] {
			t.Errorf("nothing makes a %s", name)
		}
		if effects.Releases(e) {
			releasing = append(releasing, name)
		}
		if effects.GoesOn(e) {
			going = append(going, name)
		}
		said := name == "Triage" || name == "ReportQuestionClosed" // harms nothing when it comes late
		if !effects.Releases(e) && !judged[name] && !said {
			t.Errorf("stillToDo has no case for %s", name)
		}
	}
	if want := []string{"StopModel", "StopCall", "RefuseDelegation"}; !slices.Equal(releasing, want) {
		t.Errorf("%v are released at once, want %v", releasing, want)
	}
	if want := []string{"AskModel", "RunTool", "StartDelegation", "AmendDelegation", "WantSlot"}; !slices.Equal(going, want) {
		t.Errorf("%v go on, want %v", going, want)
	}
}

// A snapshot that is of no use is an error, so that the log is replayed instead.
func TestRestoreBadSnapshots(t *testing.T) {
	for _, data := range []string{"", "{", "[]", `{}`, `{"Version":0}`, `{"Version":99}`, `{"Version":"1"}`} {
		if _, err := Restore(conversation.SessionKey{Tenant: "t", Session: "s"}, testRules(), []byte(data)); err == nil {
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
	d := w.s.Decide(conversation.Inputs{At: w.now}, conversation.ModelAnswered{Step: 1, Attempt: 1, Answer: conversation.ModelAnswer{Items: []conversation.Item{{Kind: conversation.ItemText, Text: "a\xffb"}}}})
	var text string
	for _, e := range d.Events {
		if r, ok := e.Body.(conversation.Response); ok {
			text = r.Text
		}
	}
	if text != "a\uFFFDb" {
		t.Errorf("the part is %q", text)
	}
}
