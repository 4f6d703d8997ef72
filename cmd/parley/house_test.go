package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What keeps the rooms readable. Tests and generated code are not counted, and a
// limit here is raised only with a reason in the commit.
const (
	maxPackageLines   = 3300 // of one package: the rules that settle a task need the decision that they change
	maxMethods        = 60   // of one type
	minWordsComments  = 25   // percent of the lines of package conversation
	minExamples       = 10   // runnable Example functions in all packages
	wordsPackage      = "conversation"
	generatedPackages = "conversation/wire/internal/pb"
)

// sameName lists the exported type names that packages below one top folder may
// share, each with the reason why it is one meaning, or why no reader of one
// package meets the other's.
var sameName = map[string]string{
	"models.Model":         "each is the conversation.Model of its package; no file sees two of them",
	"models.Options":       "the configuration of that package's model",
	"models.Stats":         "the counts of that package's model, for metrics",
	"tools.Options":        "the configuration of that package's tools",
	"actors.Deps":          "the parts that the engine works with, and those of a node of a cluster",
	"actors.Env":           "what that package needs of the engine",
	"actors.Session":       "what that package needs to know of the session that it works for",
	"actors.Options":       "what one thing of that package is for",
	"actors.End":           "the message that says how a call has ended: a model's or another one",
	"gateway.Bot":          "the bot of one platform; no file sees two of them",
	"gateway.Options":      "what a subscription is for, and the configuration of that package's platform",
	"gateway.Deps":         "what a server works with, and what a channel to a chat platform does",
	"gateway.Settings":     "the configuration of a channel to a chat platform, and of a listener",
	"gateway.File":         "what was attached to a message, and the file of the audit log",
	"gateway.Sessions":     "the interface, and the engine that has it in tests",
	"conversation.Session": "a session's machine, and the same with a hand that plays its model, in tests",
	"conversation.Store":   "what keeps sessions, and what keeps what channels to chat platforms remember",
	"conversation.Key":     "what makes a write of a session happen once, and the name of a channel's row",
	"conversation.Entry":   "a line of what a model is shown, and a line of the feed of chats",
	"conversation.Task":    "a task: in the machine's own state, and as clients read it",
	"conversation.Call":    "a call: in the machine's own state, and as clients read it",
}

// shape is what can be counted of one package.
type shape struct {
	room      string
	files     int
	lines     int            // all lines of the files
	code      int            // lines that are not blank
	comments  int            // lines that hold nothing but a comment
	exported  int            // package-level names and methods of exported types
	methods   map[string]int // by receiver type
	types     []string       // exported
	doc, own  bool           // a package comment; in a file doc.go
	layers    int            // files on the longest chain of "names something of"
	ties      int            // pairs of files of which one names something of the other
	backwards int            // ties against the order of the layers
}

// largest returns the type with the most methods.
func (s shape) largest() (string, int) {
	name, most := "", 0
	for _, n := range slices.Sorted(maps.Keys(s.methods)) {
		if s.methods[n] > most {
			name, most = n, s.methods[n]
		}
	}
	return name, most
}

// measure reads the Go files of every package, tests and generated ones aside.
func measure(t *testing.T) []shape {
	t.Helper()
	var all []shape
	for _, p := range packages(t) {
		s := shape{room: strings.TrimPrefix(p.ImportPath, "parley/"), methods: map[string]int{}}
		fset, parsed := token.NewFileSet(), []*ast.File{}
		for _, name := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			if file.Doc != nil {
				s.doc, s.own = true, s.own || name == "doc.go"
			}
			if ast.IsGenerated(file) {
				continue
			}
			parsed = append(parsed, file)
			s.count(fset, file, string(text))
		}
		s.files = len(parsed)
		s.layers, s.ties, s.backwards = layers(fset, parsed)
		all = append(all, s)
	}
	return all
}

func (s *shape) count(fset *token.FileSet, file *ast.File, text string) {
	commented := map[int]bool{} // lines that a comment touches
	for _, group := range file.Comments {
		for _, c := range group.List {
			for l := fset.Position(c.Pos()).Line; l <= fset.Position(c.End()).Line; l++ {
				commented[l] = true
			}
		}
	}
	inBlock := false
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		s.lines++
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		s.code++
		if commented[i+1] && (inBlock || strings.HasPrefix(line, "//") || strings.HasPrefix(line, "/*")) {
			s.comments++
		}
		if strings.HasPrefix(line, "/*") {
			inBlock = true
		}
		if strings.Contains(line, "*/") {
			inBlock = false
		}
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			of := ""
			if d.Recv != nil {
				of = receiver(d.Recv.List[0].Type)
				s.methods[of]++
			}
			if d.Name.IsExported() && (d.Recv == nil || ast.IsExported(of)) {
				s.exported++
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					if spec.Name.IsExported() {
						s.exported++
						if !spec.Assign.IsValid() { // an alias is the same meaning
							s.types = append(s.types, spec.Name.Name)
						}
					}
				case *ast.ValueSpec:
					for _, n := range spec.Names {
						if n.IsExported() {
							s.exported++
						}
					}
				}
			}
		}
	}
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// nothing imports every package as an empty one: only names of the package
// itself are resolved.
type nothing struct{}

func (nothing) Import(p string) (*types.Package, error) {
	empty := types.NewPackage(p, path.Base(p))
	empty.MarkComplete()
	return empty, nil
}

// layers draws which file of a package names what another one declares, and puts
// the files in an order: those first that name the least of what is left.
func layers(fset *token.FileSet, files []*ast.File) (depth, ties, backwards int) {
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: nothing{}, Error: func(error) {}, FakeImportC: true}
	pkg, _ := config.Check("p", fset, files, info)
	names := map[string]map[string]bool{}
	for _, f := range files {
		names[fset.Position(f.Package).Filename] = map[string]bool{}
	}
	for used, object := range info.Uses {
		if object.Pkg() != pkg || !object.Pos().IsValid() {
			continue
		}
		if f, ok := object.(*types.Func); object.Parent() != pkg.Scope() && (!ok || f.Signature().Recv() == nil) {
			continue // a local name, a field
		}
		if from, to := fset.Position(used.Pos()).Filename, fset.Position(object.Pos()).Filename; from != to {
			names[from][to] = true
		}
	}
	left := slices.Sorted(maps.Keys(names))
	order := map[string]int{}
	level := map[string]int{}
	for len(left) > 0 {
		open := func(f string) int { // what f names of those left, less how many of them name f
			n := 0
			for _, other := range left {
				if names[f][other] {
					n += 1000
				}
				if names[other][f] {
					n--
				}
			}
			return n
		}
		next := slices.MinFunc(left, func(a, b string) int { return open(a) - open(b) })
		order[next] = len(order)
		level[next] = 1
		for below := range names[next] {
			if level[below] >= level[next] { // zero as long as it is above
				level[next] = level[below] + 1
			}
		}
		depth = max(depth, level[next])
		left = slices.DeleteFunc(left, func(f string) bool { return f == next })
	}
	for from, named := range names {
		for to := range named {
			ties++
			if order[to] > order[from] {
				backwards++
			}
		}
	}
	return depth, ties, backwards
}

func TestHouseSizes(t *testing.T) {
	for _, s := range measure(t) {
		if s.lines > maxPackageLines {
			t.Errorf("package %s has %d lines, more than %d: which part of it is a room of its own?", s.room, s.lines, maxPackageLines)
		}
		for name, n := range s.methods {
			if n > maxMethods {
				t.Errorf("type %s of package %s has %d methods, more than %d", name, s.room, n, maxMethods)
			}
		}
	}
}

// The words are for those who read nothing else of the core.
func TestHouseWordsAreExplained(t *testing.T) {
	for _, s := range measure(t) {
		if s.room == wordsPackage && s.comments*100 < s.code*minWordsComments {
			t.Errorf("%d of the %d lines of package %s are comments, less than %d %%", s.comments, s.code, s.room, minWordsComments)
		}
	}
}

func TestHousePackagesAreDescribed(t *testing.T) {
	for _, s := range measure(t) {
		switch {
		case s.room == generatedPackages:
		case !s.doc:
			t.Errorf("package %s has no package comment", s.room)
		case !s.own:
			t.Errorf("the comment of package %s does not stand in doc.go", s.room)
		}
	}
}

// A reader who meets a type's name knows what it is, whichever package of the
// room it comes from.
func TestHouseTypeNamesHaveOneMeaning(t *testing.T) {
	where := map[string][]string{}
	for _, s := range measure(t) {
		top, _, _ := strings.Cut(s.room, "/")
		for _, name := range s.types {
			if s.room != generatedPackages {
				where[top+"."+name] = append(where[top+"."+name], s.room)
			}
		}
	}
	for name, rooms := range where {
		if len(rooms) > 1 && sameName[name] == "" {
			t.Errorf("type %s is defined in %s", name, strings.Join(rooms, " and "))
		}
	}
	for name := range sameName {
		if len(where[name]) < 2 {
			t.Errorf("sameName has %s, but there are not two of it", name)
		}
	}
}

func TestHouseHasExamples(t *testing.T) {
	var examples []string
	for _, p := range packages(t) {
		for _, name := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Example") {
					examples = append(examples, p.ImportPath+"."+f.Name.Name)
				}
			}
		}
	}
	if len(examples) < minExamples {
		t.Errorf("there are %d examples, less than %d: %v", len(examples), minExamples, examples)
	}
}

var printShape = flag.Bool("shape", false, "print the table of packages (make shape)")

// TestHouseShape prints the packages and their sizes with -shape.
func TestHouseShape(t *testing.T) {
	if !*printShape {
		return
	}
	var sum shape
	fmt.Println("| package | files | lines | exported | largest type: methods | layers | ties | against the order | comments |\n|---|---:|---:|---:|---|---:|---:|---:|---:|")
	for _, s := range measure(t) {
		name, n := s.largest()
		fmt.Printf("| %s | %d | %d | %d | %s: %d | %d | %d | %d | %d %% |\n",
			s.room, s.files, s.lines, s.exported, name, n, s.layers, s.ties, s.backwards, percent(s.comments, s.code))
		sum.files, sum.lines, sum.exported = sum.files+s.files, sum.lines+s.lines, sum.exported+s.exported
		sum.code, sum.comments = sum.code+s.code, sum.comments+s.comments
	}
	fmt.Printf("| all | %d | %d | %d | | | | | %d %% |\n", sum.files, sum.lines, sum.exported, percent(sum.comments, sum.code))
}

func percent(part, whole int) int { return part * 100 / max(whole, 1) }

// wallTime are the files that may turn a time into a number of nanoseconds, each
// with the reason. Such a number has lost the process's own clock: who measures with
// it waits for an hour too long when the clock on the wall is set back by one.
var wallTime = map[string]string{
	"actors/internal/sessionlog/names.go": "makes the names of commits unlike those of the process before",
}

func TestHouseMeasuresByTheProcessClock(t *testing.T) {
	for _, room := range []string{"actors", "gateway", "persistence", "models", "tools"} {
		eachFile(t, []string{room}, []string{".go"}, func(path, text string) {
			if strings.HasSuffix(path, "_test.go") || wallTime[path] != "" {
				return
			}
			for _, call := range []string{".UnixNano()", "time.Unix("} {
				if strings.Contains(text, call) {
					t.Errorf("%s uses %s: measure with time.Since of a time that was not converted", path, call)
				}
			}
		})
	}
}

// The SDKs of examples/ are pinned: each by one version, with its checksum, and without the address
// of a registry, which is the business of who installs them.
func TestHouseExamplesPin(t *testing.T) {
	read := func(name string, into any) {
		text, err := os.ReadFile(filepath.Join(root, "examples", name))
		if err == nil {
			err = json.Unmarshal(text, into)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	var wanted struct{ Dependencies map[string]string }
	var locked struct {
		Packages map[string]struct{ Version, Integrity, Resolved string }
	}
	read("package.json", &wanted)
	read("package-lock.json", &locked)
	reasons := document(t, "DEPENDENCIES.md")
	for name, version := range wanted.Dependencies {
		if got := locked.Packages["node_modules/"+name].Version; got != version {
			t.Errorf("package.json wants %s %q, package-lock.json has %q; ranges are not for here", name, version, got)
		}
		if !strings.Contains(reasons, "`"+name+"`") {
			t.Errorf("docs/DEPENDENCIES.md does not say what %s is for", name)
		}
	}
	for path, p := range locked.Packages {
		if path != "" && p.Integrity == "" || p.Resolved != "" {
			t.Errorf("package-lock.json: %s has the checksum %q and the address %q; npm install --package-lock-only --omit-lockfile-registry-resolved=true", path, p.Integrity, p.Resolved)
		}
	}
	if len(wanted.Dependencies) == 0 || len(locked.Packages) == 0 {
		t.Error("nothing is pinned")
	}
}
