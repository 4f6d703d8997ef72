package gatewaytest

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write golden files instead of comparing with them")

// Golden compares got with a file of testdata, byte for byte; -rewrite writes it.
func Golden(t testing.TB, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (write it with: go test ./gateway -run %s -rewrite)", err, t.Name())
	}
	if string(want) != string(got) {
		t.Errorf("%s differs\n got %s\nwant %s", path, got, want)
	}
}
