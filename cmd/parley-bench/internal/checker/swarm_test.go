package checker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley-bench/internal/load"
)

// alone is a cluster of one node.
type alone struct{ addr string }

func (a alone) Any(*rand.Rand) string     { return a.addr }
func (a alone) Current(*rand.Rand) string { return a.addr }

// A swarm works on a real server, and nothing is wrong.
func TestSwarm(t *testing.T) {
	path, cleanup, err := load.BuildServer("")
	if err != nil {
		t.Fatal(err)
	}
	defer cleanup()
	base := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(base, "lines")
	if err := os.WriteFile(filepath.Join(base, "config.toml"), []byte(JournalConfig(self, file)), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := load.StartServer(path, filepath.Join(base, "data"), Settings()...)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Kill()
	swarm := NewSwarm(4, 7, alone{s.Addr})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	swarm.Work(ctx)
	select {
	case err := <-swarm.Failed():
		t.Fatal(err)
	default:
	}
	if err := swarm.Finish(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	o, err := swarm.Check(t.Context(), s.Addr, file)
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"ok send", "looks elsewhere", "connected again"} {
		if o.Counts[what] == 0 {
			t.Errorf("no %q in two seconds: %v", what, o.Counts)
		}
	}
}

// A look at another node finds what that node does not have.
func TestLookElsewhereFindsViolations(t *testing.T) {
	log := at(good()...)
	for _, c := range []struct {
		name, page string
		status     int
		known      int // events that were shown
		says       string
	}{
		{"it has all", strings.Join(log[3:8], ","), 200, 4, ""},
		{"it has not what was shown", "", 200, 4, "seq 4 was shown"},
		{"it has another event", strings.Replace(log[3], `"attempt":1`, `"attempt":2`, 1), 200, 4, "seq 4 was shown"},
		{"it has not what was acknowledged", log[3], 200, 4, "w-2 was acknowledged"},
		{"it knows no such session", "", 404, 4, "404"},
		{"it says internal", "", 500, 4, "500"},
		{"it is not there at the moment", "", 503, 4, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			web := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
				out.WriteHeader(c.status)
				_, _ = fmt.Fprintf(out, `{"items":[%s]}`, c.page)
			}))
			defer web.Close()
			cl := newClient(0, 1)
			cl.session, cl.order, cl.patience = "s", []string{"w-1", "w-2"}, time.Minute
			cl.acknowledged = map[string]string{"w-1": "m1", "w-2": "m2"}
			cl.elsewhere = alone{strings.TrimPrefix(web.URL, "http://")}.Current
			for _, raw := range log[:c.known] {
				cl.history = append(cl.history, []byte(raw))
				if err := cl.model.apply([]byte(raw)); err != nil {
					t.Fatal(err)
				}
			}
			err := cl.lookElsewhere(t.Context())
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("it says %v, want %q", err, c.says)
			}
		})
	}
}

// What a client may be told for the moment, and what it must not be.
func TestOutsideRefusal(t *testing.T) {
	for code, allowed := range map[string]bool{"unavailable": true, "overloaded": true, "timeout": true, "internal": false, "not_found": false} {
		err := outsideRefusal("follow", &load.Refusal{Code: code})
		if violated := new(violation); errors.As(err, &violated) == allowed {
			t.Errorf("%s: %v", code, err)
		}
	}
}
