package scaling

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "put the computed tables into docs/SCALING.md")

// The tables of the document are computed, so that its numbers are those of the constants.
func TestDocumentHoldsTheTables(t *testing.T) {
	path := filepath.Join("..", "..", "..", "..", "docs", "SCALING.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	document := string(text)
	for name, print := range map[string]func(io.Writer){
		"constants": printConstants, "node": printNode, "limits": printLimits, "latency": printLatency, "cluster": printCluster, "store": printStore,
		"sizes": func(out io.Writer) { printSizes(out, sizes) },
	} {
		var b strings.Builder
		print(&b)
		before, rest, found := strings.Cut(document, "<!-- "+name+" -->\n")
		has, after, ended := strings.Cut(rest, "<!-- end -->\n")
		switch {
		case !found || !ended:
			t.Errorf("docs/SCALING.md has no place for the table %q", name)
		case has == b.String():
		case *rewrite:
			document = before + "<!-- " + name + " -->\n" + b.String() + "<!-- end -->\n" + after
		default:
			t.Errorf("docs/SCALING.md: the table %q is not what the constants say (go test ./cmd/parley-bench/internal/scaling -rewrite):\n%s\nwant\n%s", name, has, b.String())
		}
	}
	if *rewrite && !t.Failed() {
		if err := os.WriteFile(path, []byte(document), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Twice the load takes twice as much, and a resource that is named ends at what it allows.
func TestModel(t *testing.T) {
	one, two := Load{100, 100, 10, true}.need(), Load{200, 200, 20, true}.need()
	if two.Cores != 2*one.Cores || two.Memory-fixedMemory.value != 2*(one.Memory-fixedMemory.value) || two.LogMB != 2*one.LogMB {
		t.Errorf("one %+v, two %+v", one, two)
	}
	for _, c := range []struct {
		cores, mergers float64
		resource       string
	}{
		{2, 1, "all cores"},
		{64, 1, "the goroutines that merge commits"},
		{16, mergersOf(16), "all cores"},
	} {
		if first := limits(c.cores, c.mergers, false)[0]; first.resource != c.resource {
			t.Errorf("%v cores: %q ends first, want %q", c.cores, first.resource, c.resource)
		}
	}
	for v, want := range map[float64]string{0: "0", 0.123: "0.12", 1.25: "1.3", 34567: "35,000", 1234567: "1,200,000", 99.6: "100"} {
		if got := number(v); got != want {
			t.Errorf("number(%v) is %q, want %q", v, got, want)
		}
	}
}
