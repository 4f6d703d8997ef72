package web_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
	"testing"
)

// The code of others is what the note says that it is, and all of it is in the note.
func TestVendoredFilesAreThePinnedOnes(t *testing.T) {
	note, err := os.ReadFile("vendor.txt")
	if err != nil {
		t.Fatal(err)
	}
	pinned := make(map[string]string)
	for line := range strings.Lines(string(note)) {
		f := strings.Fields(line)
		if len(f) == 5 && !strings.HasPrefix(line, "#") {
			pinned["vendor/"+f[0]] = f[4]
		}
	}
	for _, name := range names(t) {
		if !strings.HasPrefix(name, "vendor/") || !strings.HasSuffix(name, ".js") {
			continue
		}
		sum := sha256.Sum256([]byte(read(t, name)))
		if got := hex.EncodeToString(sum[:]); pinned[name] != got {
			t.Errorf("%s has the checksum %s, not %q of vendor.txt", name, got, pinned[name])
		}
		delete(pinned, name)
	}
	for name := range pinned {
		t.Errorf("%s is in vendor.txt and not in the page", name)
	}
	for _, licence := range []string{"Vitaly Puzrin", "Ivan Sagalaev"} {
		if !strings.Contains(read(t, "vendor/licences.txt"), licence) {
			t.Errorf("the licence of %s is missing", licence)
		}
	}
}
