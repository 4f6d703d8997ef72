package gatewaytest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// docs/API.md is what the two documents say; -rewrite (make golden) writes it again.
func TestGoldenPage(t *testing.T) {
	c := Documents(t)
	page := c.Page()
	for route, item := range c.HTTP.Paths.Map() {
		for method := range item.Operations() {
			if !strings.Contains(page, "\n#### "+method+" "+route+"\n") {
				t.Errorf("the page does not show %s %s", method, route)
			}
		}
	}
	for _, kind := range append(c.Commands(), c.Pushed()...) {
		if !strings.Contains(page, "\n#### "+kind+"\n") && !strings.Contains(page, "\n#### `"+kind+"`\n") {
			t.Errorf("the page does not show %s", kind)
		}
	}
	folder, err := gatewayFolder()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "..", "..", "docs", "API.md")
	if *rewrite {
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != page {
		t.Error("docs/API.md is not what the documents say: write it with go test ./gateway/gatewaytest -run TestGoldenPage -rewrite")
	}
}
