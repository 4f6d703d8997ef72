package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// eachFile calls f with every file below the folders that has one of the endings.
func eachFile(t *testing.T, folders, endings []string, f func(path, text string)) {
	t.Helper()
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(p string, d fs.DirEntry, err error) error {
			name := ""
			if d != nil {
				name = d.Name()
			}
			switch {
			case err != nil:
				return err
			case d.IsDir() && (name == "data" || name == "bin" || name == "node_modules" || len(name) > 2 && name[0] == '.'):
				return filepath.SkipDir
			case d.IsDir() || !slices.Contains(endings, filepath.Ext(name)):
				return nil
			}
			text, err := os.ReadFile(p)
			if err == nil {
				f(strings.TrimPrefix(filepath.ToSlash(p), root+"/"), string(text))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

var ruleStart = regexp.MustCompile(`(?m)^\*\*(\d+\.\d+[a-z]?)\*\* `)

// ruleNames matches "Rule 2.4" and "Rules 2.4, 2.4a and 3.1"; a document's name
// before it says whose rule it is, else it is one of MACHINE.md.
var ruleNames = regexp.MustCompile(`(PROTOCOL\.md, )?\b[Rr]ules? (\d+\.\d+[a-z]?(?:(?:,? and |, | to | )\d+\.\d+[a-z]?)*)`)

var ruleNumber = regexp.MustCompile(`\d+\.\d+[a-z]?`)

// rulesNamed returns the rules of MACHINE.md, or of PROTOCOL.md, that a text names.
func rulesNamed(text string, protocol bool) []string {
	var all []string
	for _, m := range ruleNames.FindAllStringSubmatch(text, -1) {
		if (m[1] != "") == protocol {
			all = append(all, ruleNumber.FindAllString(m[2], -1)...)
		}
	}
	return all
}

func rules(t *testing.T, document string) []string {
	t.Helper()
	var all []string
	for _, m := range ruleStart.FindAllStringSubmatch(document, -1) {
		all = append(all, m[1])
	}
	if len(all) < 10 {
		t.Fatalf("only %d numbered rules", len(all))
	}
	return all
}

// The two contracts are one numbered rule a paragraph, in order, in lines that
// fit beside code.
func TestHouseRulesAreNumbered(t *testing.T) {
	for _, name := range []string{"MACHINE.md", "PROTOCOL.md"} {
		text := document(t, name)
		for i, line := range strings.Split(text, "\n") {
			if n := utf8.RuneCountInString(line); n > 120 {
				t.Errorf("docs/%s:%d has %d characters, more than 120", name, i+1, n)
			}
		}
		section, last := 0, 0
		for _, number := range rules(t, text) {
			before, after, _ := strings.Cut(number, ".")
			s, _ := strconv.Atoi(before)
			n, err := strconv.Atoi(after)
			if err != nil { // 2.4a follows 2.4
				n, _ = strconv.Atoi(strings.TrimRight(after, "abcdefgh"))
				last--
			}
			if s != section {
				section, last = s, 0
			}
			if n != last+1 {
				t.Errorf("docs/%s: rule %s follows %d.%d", name, number, section, last)
			}
			last = n
		}
	}
}

// Each rule of the machine is shown by a transcript that names it in its header,
// and by code that names it in a comment; and every rule that is named exists.
func TestHouseRulesAreShown(t *testing.T) {
	known := rules(t, document(t, "MACHINE.md"))
	shown, held := map[string]bool{}, map[string]bool{}
	eachFile(t, []string{"conversation", "actors"}, []string{".txt", ".go"}, func(path, text string) {
		for _, number := range rulesNamed(text, false) {
			switch {
			case !slices.Contains(known, number):
				t.Errorf("%s names rule %s, which docs/MACHINE.md does not have", path, number)
			case strings.HasPrefix(path, "conversation/machine/testdata/"):
				shown[number] = true
			case !strings.HasSuffix(path, "_test.go"):
				held[number] = true
			}
		}
	})
	for _, number := range known {
		if !shown[number] {
			t.Errorf("no transcript names rule %s in its header", number)
		}
		if !held[number] {
			t.Errorf("no code names rule %s, as in the comment // Rule %s.", number, number)
		}
	}
	protocol := rules(t, document(t, "PROTOCOL.md"))
	eachFile(t, []string{"gateway", "cmd", "conversation"}, []string{".go", ".txt"}, func(path, text string) {
		for _, number := range rulesNamed(text, true) {
			if !slices.Contains(protocol, number) {
				t.Errorf("%s names rule %s, which docs/PROTOCOL.md does not have", path, number)
			}
		}
	})
}

var requirementID = regexp.MustCompile(`\b[DMARN]-\d\d\b`)

// An id of a requirement leads from a test to its row and back.
func TestHouseRequirements(t *testing.T) {
	text := document(t, "REQUIREMENTS.md")
	later := map[string]bool{} // row → it is not served yet
	for _, m := range regexp.MustCompile(`(?m)^\| ([DMARN]-\d\d) \| (.*) \|$`).FindAllStringSubmatch(text, -1) {
		if _, twice := later[m[1]]; twice {
			t.Errorf("row %s stands there twice", m[1])
		}
		later[m[1]] = strings.HasSuffix(m[2], "**(not yet)**")
	}
	if len(later) < 100 {
		t.Fatalf("only %d rows", len(later))
	}
	tested := map[string]bool{}
	eachFile(t, []string{"."}, []string{".go", ".txt", ".txtar", ".js", ".toml", ".yaml", ".md"}, func(path, text string) {
		for _, id := range requirementID.FindAllString(text, -1) {
			if _, known := later[id]; !known {
				t.Errorf("%s names %s, which docs/REQUIREMENTS.md does not have", path, id)
			}
			tested[id] = tested[id] || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "testdata/")
		}
	})
	for id, notYet := range later {
		if notYet == tested[id] {
			t.Errorf("row %s of docs/REQUIREMENTS.md: not yet served: %v; a test names it: %v", id, notYet, tested[id])
		}
	}
}

// Every arrow of the task's diagram is seen in a transcript, and the other way
// round.
func TestHouseTaskStates(t *testing.T) {
	_, text, _ := strings.Cut(document(t, "STATES.md"), "## Task\n")
	text, _, _ = strings.Cut(text, "\n## ")
	drawn, seen := map[string]bool{}, map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^    ([A-Z_]+) --> ([A-Z_]+): `).FindAllStringSubmatch(text, -1) {
		drawn[m[1]+" → "+m[2]] = true
	}
	status := regexp.MustCompile(`task_status \w+ \{.*\bold ([A-Z_]+), new ([A-Z_]+)`)
	eachFile(t, []string{"conversation/machine/testdata"}, []string{".txt"}, func(_, text string) {
		for _, m := range status.FindAllStringSubmatch(text, -1) {
			seen[m[1]+" → "+m[2]] = true
		}
	})
	for arrow := range drawn {
		if !seen[arrow] {
			t.Errorf("docs/STATES.md draws %s, which no transcript shows", arrow)
		}
	}
	for arrow := range seen {
		if !drawn[arrow] {
			t.Errorf("transcripts show %s, which docs/STATES.md does not draw", arrow)
		}
	}
}

// The tables of docs/ARCHITECTURE.md have the rooms and the arrows of the test,
// no more and no less.
func TestHouseArrowsAreDrawn(t *testing.T) {
	drawn := map[string][]string{}
	name := regexp.MustCompile("`([^`]+)`")
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z0-9/*-]+)` \\| .* \\| (.*) \\|$").FindAllStringSubmatch(document(t, "ARCHITECTURE.md"), -1) {
		drawn[m[1]] = []string{}
		for _, to := range name.FindAllStringSubmatch(m[2], -1) {
			drawn[m[1]] = append(drawn[m[1]], to[1])
		}
	}
	for room, may := range arrows {
		row, known := drawn[room]
		slices.Sort(row)
		if want := slices.Sorted(slices.Values(may)); !known || !slices.Equal(row, want) {
			t.Errorf("docs/ARCHITECTURE.md: the row of %s should say that it may import %v; it says %v", room, want, row)
		}
	}
	for room := range drawn {
		if _, known := arrows[room]; !known {
			t.Errorf("docs/ARCHITECTURE.md has a row for %s, which is not in arrows", room)
		}
	}
}

// Each package that starts a goroutine is named in the table of owners.
func TestHouseGoroutinesHaveOwners(t *testing.T) {
	_, table, _ := strings.Cut(document(t, "ARCHITECTURE.md"), "## Goroutines")
	table, _, _ = strings.Cut(table, "\n## ")
	for _, p := range packages(t) {
		room := strings.TrimPrefix(p.ImportPath, "parley/")
		if strings.Contains(room, "test") || strings.HasPrefix(room, "cmd/parley-") || strings.Contains(table, "`"+room+"`") {
			continue
		}
		for _, name := range p.GoFiles {
			parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				if _, starts := n.(*ast.GoStmt); starts {
					t.Errorf("%s/%s starts a goroutine, and docs/ARCHITECTURE.md does not say who owns it", room, name)
				}
				return true
			})
		}
	}
}

// What the documents link to is there, and so are the files and packages that
// they name.
func TestHousePathsExist(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	file := regexp.MustCompile("`((?:conversation|actors|gateway|persistence|models|tools|metrics|cmd|docs)/[a-z0-9_./-]+)`")
	eachFile(t, []string{"."}, []string{".md"}, func(name, text string) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(name), m[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", name, m[1])
			}
		}
		if strings.HasPrefix(name, "docs/adr/") { // they tell what was, too
			return
		}
		for _, m := range file.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
				t.Errorf("%s names %s, which is not there", name, m[1])
			}
		}
	})
}

// The states of the subscription's diagram are the phases of the code.
func TestHouseSubscriptionStates(t *testing.T) {
	_, text, _ := strings.Cut(document(t, "STATES.md"), "## Subscription\n")
	code, err := os.ReadFile(filepath.Join(root, "gateway", "fanout", "subscription.go"))
	if err != nil {
		t.Fatal(err)
	}
	drawn, there := map[string]bool{}, map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^    (\w+) --> (?:\[\*\]|\w+)`).FindAllStringSubmatch(text, -1) {
		drawn[m[1]] = true
	}
	for _, m := range regexp.MustCompile(`(?m)^\tphase([A-Z]\w*)\b`).FindAllStringSubmatch(string(code), -1) {
		there[strings.ToLower(m[1])] = true
	}
	if len(there) == 0 || !maps.Equal(drawn, there) {
		t.Errorf("docs/STATES.md draws %v, gateway/fanout has %v", drawn, there)
	}
}
