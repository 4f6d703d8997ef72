package web_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What the binary holds is made of the sources as they stand, by the version of esbuild that
// go.mod names: bundle.txt has the checksums of all of them.
func TestBundleIsFresh(t *testing.T) {
	const root = "../.."
	note, err := os.ReadFile("bundle.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[string]string)
	for line := range strings.Lines(string(note)) {
		if sum, name, ok := strings.Cut(strings.TrimSpace(line), "  "); ok {
			want[name] = sum
		}
	}
	here := []string{".ci/bundle/go.mod", "clients/js/client.js"}
	for _, pattern := range []string{"page/*.js", "page/vendor/*.js", "page/*.css", "bundle/*"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no %s (%v)", pattern, err)
		}
		for _, name := range files {
			here = append(here, "gateway/web/"+filepath.ToSlash(name))
		}
	}
	for _, name := range here {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(text); want[name] != hex.EncodeToString(sum[:]) {
			t.Errorf("%s has changed since the page's bundle was made: make page", name)
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("%s is in the page's bundle and gone: make page", name)
	}
}
