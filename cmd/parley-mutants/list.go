package main

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// mutant is one entry of a list: a mistake, and what is expected of the tests.
type mutant struct {
	id    string // unique in all lists
	list  string // the list's name, which is the room's
	where string // file and line of the entry, for messages

	file     string   // what is changed, from the top of the module
	breaks   string   // the promise that a user would miss
	packages []string // whose tests must notice, in this order
	by       string   // the test that is known to notice; "" = not known

	// At most one of the two says that the mutant is known to survive, and why.
	equivalent string // nobody can notice it
	untested   string // somebody could, and no test does yet

	old, new string // whole lines
}

// marked tells whether the mutant is known to survive.
func (m mutant) marked() bool { return m.equivalent != "" || m.untested != "" }

var idPattern = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// readLists reads every *.txt of a folder, in the order of their names. An entry is
//
//	== id
//	file: persistence/pebble/commit.go
//	breaks: what was acknowledged is lost when the power goes
//	tests: ./persistence/pebble ./actors      (without it: the file's own package)
//	by: TestKill/a_part_of_it                 (the test that notices; it is run first)
//	equivalent: why nobody can notice it      (if so)
//	untested: why no test notices it yet      (if so)
//	 a line of the file that stays
//	-a line that goes
//	+a line that comes instead
//
// The lines of the change are those of a diff without numbers: what stays and what
// goes must stand in the file exactly once, in this order. Empty lines and lines
// that begin with "#" between entries are comments.
func readLists(lists fs.FS) ([]mutant, error) {
	names, err := fs.Glob(lists, "*.txt")
	if err != nil {
		return nil, err
	}
	var all []mutant
	for _, name := range names {
		text, err := fs.ReadFile(lists, name)
		if err != nil {
			return nil, err
		}
		some, err := readList(name, string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	seen := map[string]string{}
	for _, m := range all {
		if first := seen[m.id]; first != "" {
			return nil, fmt.Errorf("%s: the id %s is taken by %s", m.where, m.id, first)
		}
		seen[m.id] = m.where
	}
	return all, nil
}

func readList(name, text string) ([]mutant, error) {
	var all []mutant
	var now *mutant
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		where := fmt.Sprintf("%s:%d", name, i+1)
		id, starts := strings.CutPrefix(line, "== ")
		var err error
		switch {
		case starts && !idPattern.MatchString(id):
			err = fmt.Errorf("the id %q is not words of small letters and digits with hyphens", id)
		case starts:
			all = append(all, mutant{id: id, list: strings.TrimSuffix(name, ".txt"), where: where})
			now = &all[len(all)-1]
		case line == "" || strings.HasPrefix(line, "#"):
		case now == nil:
			err = fmt.Errorf("%q stands before the first entry", line)
		default:
			err = now.add(line)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", where, err)
		}
	}
	for i := range all {
		if err := all[i].check(); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", all[i].where, all[i].id, err)
		}
	}
	return all, nil
}

// add takes one line of the entry: of its head, or of its change.
func (m *mutant) add(line string) error {
	rest := line[1:] + "\n"
	switch line[0] {
	case ' ':
		m.old, m.new = m.old+rest, m.new+rest
		return nil
	case '-':
		m.old += rest
		return nil
	case '+':
		m.new += rest
		return nil
	}
	key, value, found := strings.Cut(line, ": ")
	fields := map[string]*string{"file": &m.file, "breaks": &m.breaks, "by": &m.by, "equivalent": &m.equivalent, "untested": &m.untested}
	switch field := fields[key]; {
	case m.old != "" || m.new != "":
		return fmt.Errorf("%q stands behind the change; does a line of it lack its first sign?", line)
	case !found || strings.TrimSpace(value) == "":
		return fmt.Errorf("%q is not \"key: value\"", line)
	case key == "tests" && m.packages == nil:
		m.packages = strings.Fields(value)
	case field == nil:
		return fmt.Errorf("the key %q is not known, or stands there twice", key)
	case *field != "":
		return fmt.Errorf("the key %q stands there twice", key)
	default:
		*field = value
	}
	return nil
}

// check says what an entry lacks, and fills in the file's own package.
func (m *mutant) check() error {
	switch {
	case m.file == "" || m.breaks == "":
		return fmt.Errorf("an entry needs \"file\" and \"breaks\"")
	case m.old == "":
		return fmt.Errorf("the change has no line that is there now")
	case m.old == m.new:
		return fmt.Errorf("the change changes nothing")
	case m.equivalent != "" && m.untested != "":
		return fmt.Errorf("it is either equivalent or untested")
	case m.by != "" && m.marked():
		return fmt.Errorf("it names a test that notices, and is marked as surviving")
	}
	if m.packages == nil {
		m.packages = []string{"./" + path.Dir(m.file)}
	}
	return nil
}

// apply returns the file's text with the mistake in it. The entry is stale if its
// old lines do not stand there exactly once.
func (m mutant) apply(text string) (string, error) {
	padded := "\n" + text // so that only whole lines match
	switch n := strings.Count(padded, "\n"+m.old); n {
	case 0:
		return "", fmt.Errorf("%s: %s: %s does not have these lines any more", m.where, m.id, m.file)
	case 1:
		return strings.Replace(padded, "\n"+m.old, "\n"+m.new, 1)[1:], nil
	default:
		return "", fmt.Errorf("%s: %s: %s has these lines %d times; add a line before or behind them", m.where, m.id, m.file, n)
	}
}

// pick returns the mutants that the names ask for, each an id or a list; all of
// them without names.
func pick(all []mutant, names string) ([]mutant, error) {
	wanted := strings.FieldsFunc(names, func(r rune) bool { return r == ',' || r == ' ' })
	if len(wanted) == 0 {
		return all, nil
	}
	for _, name := range wanted {
		if !slices.ContainsFunc(all, func(m mutant) bool { return m.id == name || m.list == name }) {
			return nil, fmt.Errorf("there is no mutant and no list %q", name)
		}
	}
	var some []mutant
	for _, m := range all {
		if slices.Contains(wanted, m.id) || slices.Contains(wanted, m.list) {
			some = append(some, m)
		}
	}
	return some, nil
}
