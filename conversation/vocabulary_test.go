package conversation

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

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
		"isCommand": typeNames(Commands()), "isEvent": typeNames(EventBodies()), "isEffect": typeNames(Effects()),
	} {
		if got := implementers(files, marker); !slices.Equal(got, want) {
			t.Errorf("%s: the package has\n\t%v\nthe test knows\n\t%v", marker, got, want)
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

// Every command, and every kind of event, has a name of its own; every kind has
// one body.
func TestVocabularyIsNamed(t *testing.T) {
	names := map[string]bool{}
	for _, c := range Commands() {
		if names[c.Name()] || c.Name() == "" {
			t.Errorf("%T is called %q", c, c.Name())
		}
		names[c.Name()] = true
	}
	var kinds []EventKind
	names = map[string]bool{}
	for _, b := range EventBodies() {
		kinds = append(kinds, b.Kind())
		if s := b.Kind().String(); names[s] || s == "" || strings.HasPrefix(s, "unknown") {
			t.Errorf("%T is called %q", b, s)
		} else {
			names[s] = true
		}
	}
	slices.Sort(kinds)
	if !slices.Equal(kinds, EventKinds()) {
		t.Errorf("the bodies have the kinds %v, there are %v", kinds, EventKinds())
	}
}
