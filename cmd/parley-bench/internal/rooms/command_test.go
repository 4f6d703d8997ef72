package rooms

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// "parley-bench profile" in small, with the waits: a turn's time and allocations are in
// the rooms that must have some.
func TestProfileSmoke(t *testing.T) {
	var out strings.Builder
	dir := filepath.Join(t.TempDir(), "profiles")
	p := &ByRoom{Clients: 20, Duration: time.Second, Block: true, Dir: dir}
	if err := p.run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	for _, room := range []string{"actors", "conversation/machine", "all"} {
		if !regexp.MustCompile(`(?m)^\| ` + room + ` \| .*[1-9].* \|$`).MatchString(out.String()) {
			t.Errorf("nothing of %s:\n%s", room, out.String())
		}
	}
	for _, name := range []string{"profile", "allocs", "mutex", "block"} {
		if info, err := os.Stat(filepath.Join(dir, name+".pb.gz")); err != nil || info.Size() == 0 {
			t.Errorf("the profile %s: %v", name, err)
		}
	}
}
