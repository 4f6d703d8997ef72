package machine

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const statePackage = "parley/conversation/machine/internal/state"

// The decisions read the state and never write it: only Apply, in the package of
// the state, changes it. The compiler keeps them from its unexported methods,
// this test from its fields.
func TestOnlyApplyChangesTheState(t *testing.T) {
	list := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Export", "./...")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	compiled := map[string]string{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct{ ImportPath, Export string }
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		compiled[p.ImportPath] = p.Export
	}
	read := 0
	for dir, path := range map[string]string{".": "parley/conversation/machine", "internal/plan": "parley/conversation/machine/internal/plan"} {
		read += readsOfTheState(t, dir, path, compiled)
	}
	if read < 50 {
		t.Errorf("only %d reads of the state were seen: the test looks at the wrong place", read)
	}
}

// readsOfTheState counts them in a package, and complains about each write.
func readsOfTheState(t *testing.T, dir, path string, compiled map[string]string) (read int) {
	t.Helper()
	set := token.NewFileSet()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	info := &types.Info{Selections: map[*ast.SelectorExpr]*types.Selection{}}
	from := importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(compiled[path]) })
	if _, err := (&types.Config{Importer: from}).Check(path, set, files, info); err != nil {
		t.Fatal(err)
	}
	// stateField finds a field of the state on the way to what is written.
	var stateField func(e ast.Expr) bool
	stateField = func(e ast.Expr) bool {
		switch e := e.(type) {
		case *ast.SelectorExpr:
			field, ok := info.Selections[e]
			if ok && field.Kind() == types.FieldVal && field.Obj().Pkg() != nil && field.Obj().Pkg().Path() == statePackage {
				return true
			}
			return stateField(e.X)
		case *ast.IndexExpr:
			return stateField(e.X)
		case *ast.StarExpr:
			return stateField(e.X)
		case *ast.ParenExpr:
			return stateField(e.X)
		default:
			return false
		}
	}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			var written []ast.Expr
			switch n := n.(type) {
			case *ast.AssignStmt:
				written = n.Lhs
			case *ast.IncDecStmt:
				written = []ast.Expr{n.X}
			case *ast.UnaryExpr:
				if n.Op == token.AND {
					written = []ast.Expr{n.X}
				}
			case *ast.RangeStmt:
				written = []ast.Expr{n.Key, n.Value}
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.Ident); ok && (f.Name == "delete" || f.Name == "clear" || f.Name == "copy") {
					written = n.Args[:1]
				}
			case *ast.SelectorExpr:
				if stateField(n) {
					read++
				}
			}
			for _, e := range written {
				if e != nil && stateField(e) {
					t.Errorf("%s: a decision writes to the state", set.Position(e.Pos()))
				}
			}
			return true
		})
	}
	return read
}
