package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"parley/cmd/parley/internal/config"
)

// Each limit of the configuration has a row with its default in docs/LIMITS.md, a metric,
// and what a client gets; and each label under which something refused is counted is there.
func TestHouseLimitsAreListed(t *testing.T) {
	text := document(t, "LIMITS.md")
	rows := map[string][]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(limits\\.[a-z_]+)` \\| (.*) \\|$").FindAllStringSubmatch(text, -1) {
		if rows[m[1]] != nil {
			t.Errorf("%s has two rows", m[1])
		}
		rows[m[1]] = strings.Split(m[2], " | ")
	}
	var out bytes.Buffer
	if err := config.Print(&out, config.Default()); err != nil {
		t.Fatal(err)
	}
	section, limits := "", 0
	for line := range strings.SplitSeq(out.String(), "\n") {
		if name, ok := strings.CutPrefix(line, "["); ok {
			section = strings.TrimSuffix(name, "]")
		}
		key, value, ok := strings.Cut(line, " = ")
		if section != "limits" || !ok {
			continue
		}
		limits++
		key = "limits." + key
		row := rows[key]
		delete(rows, key)
		switch {
		case row == nil:
			t.Errorf("%s has no row in docs/LIMITS.md", key)
		case len(row) != 4:
			t.Errorf("%s has %d cells", key, len(row)+1)
		case row[0] != strings.Trim(value, `"`):
			t.Errorf("%s is %s by default, docs/LIMITS.md says %s", key, value, row[0])
		case !strings.Contains(row[2], "`parley_"):
			t.Errorf("%s has no metric: %s", key, row[2])
		case row[1] == "" || row[3] == "":
			t.Errorf("%s: %q", key, row)
		}
	}
	for key := range rows {
		t.Errorf("docs/LIMITS.md has a row for %s, which there is not", key)
	}
	if limits < 20 {
		t.Errorf("only %d limits are seen", limits)
	}
	for _, label := range refusedLabels(t) {
		if !strings.Contains(text, `parley_gateway_refused_total{limit="`+label+`"}`) {
			t.Errorf("something is refused under the label %q, which docs/LIMITS.md does not have", label)
		}
	}
}

// refusedLabels are the labels of Refused.WithLabelValues in the code, where they are
// written out.
func refusedLabels(t *testing.T) (labels []string) {
	for _, p := range packages(t) {
		if !strings.HasPrefix(p.ImportPath, "parley/gateway") {
			continue
		}
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || len(call.Args) != 1 {
					return true
				}
				with, ok := call.Fun.(*ast.SelectorExpr)
				if !ok || with.Sel.Name != "WithLabelValues" {
					return true
				}
				of, ok := with.X.(*ast.SelectorExpr)
				text, lit := call.Args[0].(*ast.BasicLit)
				if label, err := strconv.Unquote(textOf(text)); ok && lit && of.Sel.Name == "Refused" && err == nil {
					labels = append(labels, label)
				}
				return true
			})
		}
	}
	if len(labels) < 3 {
		t.Errorf("only %d labels are seen", len(labels))
	}
	return labels
}

func textOf(l *ast.BasicLit) string {
	if l == nil {
		return ""
	}
	return l.Value
}
