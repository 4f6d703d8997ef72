package main

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

const head = "== a\nfile: x/y.go\nbreaks: a promise\n"

func TestReadList(t *testing.T) {
	lists := fstest.MapFS{
		"one.txt": {Data: []byte("# a comment\n\n" + head + " keep\n-go\n+come\n+\n\n== b-2\nfile: z.go\nbreaks: it\ntests: ./p ./q/...\nuntested: nobody has\n-\told\n")},
		"two.txt": {Data: []byte("== c\nfile: z.go\nbreaks: it\nequivalent: nobody can\n-old\n")},
		"README":  {Data: []byte("not a list")},
	}
	all, err := readLists(lists)
	if err != nil || len(all) != 3 {
		t.Fatalf("%d entries, %v", len(all), err)
	}
	a, b, c := all[0], all[1], all[2]
	if a.id != "a" || a.list != "one" || a.where != "one.txt:3" || a.file != "x/y.go" || a.breaks != "a promise" || a.marked() {
		t.Errorf("a is %+v", a)
	}
	if a.old != "keep\ngo\n" || a.new != "keep\ncome\n\n" {
		t.Errorf("a changes %q to %q", a.old, a.new)
	}
	if strings.Join(a.packages, " ") != "./x" || strings.Join(b.packages, " ") != "./p ./q/..." {
		t.Errorf("tests of %v and %v", a.packages, b.packages)
	}
	if b.untested != "nobody has" || b.old != "\told\n" || b.new != "" || c.equivalent != "nobody can" || c.list != "two" {
		t.Errorf("b is %+v, c is %+v", b, c)
	}
}

func TestReadListRefuses(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"no entry", "file: x.go\n", "before the first entry"},
		{"id", "== No Good\n", "the id"},
		{"no file", "== a\nbreaks: b\n-x\n", `needs "file" and "breaks"`},
		{"no reason", "== a\nfile: x.go\n-x\n", `needs "file" and "breaks"`},
		{"no old line", head + "+x\n", "no line that is there now"},
		{"no change", head + "-x\n+x\n", "changes nothing"},
		{"unknown key", head + "kills: x\n", `key "kills"`},
		{"key twice", head + "file: z.go\n", "twice"},
		{"tests twice", head + "tests: ./a\ntests: ./b\n", "twice"},
		{"no value", head + "untested: \n", "key: value"},
		{"head behind the change", head + "-x\nequivalent: y\n", "behind the change"},
		{"both marks", head + "equivalent: x\nuntested: y\n-x\n", "either equivalent or untested"},
		{"noticed and marked", head + "by: TestX\nequivalent: y\n-x\n", "names a test that notices, and is marked"},
		{"id twice", head + "-x\n" + head + "-y\n", "is taken by l.txt:1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := readLists(fstest.MapFS{"l.txt": {Data: []byte(c.text)}})
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "l.txt:") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestApply(t *testing.T) {
	for _, c := range []struct{ name, old, new, text, want, wrong string }{
		{"in the middle", "b\n", "x\n", "a\nb\nc\n", "a\nx\nc\n", ""},
		{"first line", "a\n", "x\ny\n", "a\nb\n", "x\ny\nb\n", ""},
		{"last lines go", "b\nc\n", "", "a\nb\nc\n", "a\n", ""},
		{"whole lines only", "b\n", "x\n", "ab\nba\n", "", "any more"},
		{"gone", "z\n", "x\n", "a\n", "", "any more"},
		{"twice", "a\n", "x\n", "a\nb\na\n", "", "2 times"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := mutant{id: "m", file: "f.go", where: "l.txt:1", old: c.old, new: c.new}.apply(c.text)
			switch {
			case c.wrong == "" && (err != nil || got != c.want):
				t.Errorf("got %q, %v", got, err)
			case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestPick(t *testing.T) {
	all := []mutant{{id: "a", list: "one"}, {id: "b", list: "one"}, {id: "c", list: "two"}}
	for names, want := range map[string]string{"": "abc", "b": "b", "c,a": "ac", "two b": "bc", "one": "ab"} {
		some, err := pick(all, names)
		got := ""
		for _, m := range some {
			got += m.id
		}
		if err != nil || got != want {
			t.Errorf("%q picks %q, %v", names, got, err)
		}
	}
	if _, err := pick(all, "a,nobody"); err == nil {
		t.Error("an unknown name is taken")
	}
}

// The real lists can be read. Whether they fit the code says "make mutants": a
// change of the code need not wait for its mutants.
func TestListsAreWhole(t *testing.T) {
	all, err := readLists(os.DirFS("list"))
	if err != nil || len(all) == 0 {
		t.Errorf("%d entries, %v", len(all), err)
	}
}
