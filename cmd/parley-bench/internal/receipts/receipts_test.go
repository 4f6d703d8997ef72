package receipts

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley-bench/internal/load"
)

// program is the server, built once for all tests.
var program string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var cleanup func()
		var err error
		if program, cleanup, err = load.BuildServer(""); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer cleanup()
		return m.Run()
	}())
}

// The conversations with the real program: with the scripted model, and with models
// behind the Chat wire. A model that names what it answers has true receipts alone, and
// needs no nudge (D-17 to D-19, N-15); one that says the same to everything has none,
// but for its first answer: so the judge is not content with any answer.
func TestReceipts(t *testing.T) {
	hold := func(t *testing.T, r Receipts) *report {
		t.Helper()
		r.Server, r.Seed, r.Runs, r.Parallel, r.Timeout = program, 1, 1, 8, time.Minute
		var progress strings.Builder
		result, err := r.judge(t.Context(), &progress)
		if err != nil {
			t.Fatalf("%v\n%s", err, progress.String())
		}
		if result.Total.Messages == 0 || result.Total.Steps == 0 || result.Total.Usage.Input == 0 {
			t.Errorf("nothing was counted: %+v", result.Total)
		}
		return result
	}
	shown := func(r *report) string {
		var b strings.Builder
		r.table(&b, prices{})
		return b.String()
	}
	for _, good := range []struct {
		name, model string
		Receipts
	}{
		{"scripted", "scripted", Receipts{}},
		{"careful", "openai:stand-in", Receipts{StandIn: careful}},
	} {
		t.Run(good.name, func(t *testing.T) {
			r := hold(t, good.Receipts)
			if r.Model != good.model || len(r.Conversations) < 18 {
				t.Errorf("%d conversations with %q", len(r.Conversations), r.Model)
			}
			if r.Total.True != r.Total.Messages || r.Total.Nudged > 0 || r.Total.Joined > 0 {
				t.Errorf("not all is true, or something was nudged for:\n%s", shown(r))
			}
			t.Log(shown(r))
		})
	}
	if testing.Short() {
		return
	}
	t.Run("it answers all in one text", func(t *testing.T) {
		r := hold(t, Receipts{StandIn: plain})
		if r.Total.False > 0 || r.Total.True < r.Total.Messages-2 || r.Total.Nudged == 0 {
			t.Errorf("a text that names nothing is believed, more than two are missed, or nothing was asked about:\n%s", shown(r))
		}
	})
	t.Run("it says its first answer again and again", func(t *testing.T) {
		r := hold(t, Receipts{StandIn: repeats})
		if r.Total.False == 0 || r.Total.Unanswered == 0 || r.Total.Nudged == 0 {
			t.Errorf("nothing is false, or nothing unanswered:\n%s", shown(r))
		}
		wantFalse(t, r, func(c *account, j judged) bool { return j.Turn > 1 })
	})
	t.Run("it has one sentence for everything", func(t *testing.T) {
		r := hold(t, Receipts{StandIn: sentence})
		wantFalse(t, r, func(*account, judged) bool { return true })
	})
}

// wantFalse fails for each true receipt of a message that has a ground truth of its own
// and that the model did not answer.
func wantFalse(t *testing.T, r *report, without func(*account, judged) bool) {
	t.Helper()
	talks, err := readTalks(embedded)
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Conversations {
		c := &r.Conversations[i]
		for _, j := range c.Judged {
			turn := &talks[i].Turns[j.Turn-1]
			if len(turn.Words) > 0 && len(turn.Want) == 1 && j.Verdict == verdictTrue && j.How == answered && without(c, j) {
				t.Errorf("%s, turn %d: %q answers %q", c.Name, j.Turn, j.Part, j.Text)
			}
		}
	}
}

// What the flags do beside that, in one short conversation.
func TestFlags(t *testing.T) {
	run := func(r Receipts) (string, error) {
		if r.URL == "" && r.Server == "" {
			r.Server = program
		}
		r.Only, r.Parallel, r.Timeout = "Arabic", 2, time.Minute
		var out strings.Builder
		err := r.run(t.Context(), &out, io.Discard)
		return out.String(), err
	}
	t.Run("price, two runs", func(t *testing.T) {
		out, err := run(Receipts{Runs: 2, PriceIn: 1000, PriceOut: 1000, MinTrue: 100})
		if err != nil || !strings.Contains(out, "| Arabic | 4 | 4 | 0 | 4 | 0 (0) |") || !strings.Contains(out, "| cost |") || strings.Contains(out, " 0.0000 |") {
			t.Errorf("error %v:\n%s", err, out)
		}
	})
	t.Run("json, too few are true", func(t *testing.T) {
		out, err := run(Receipts{Runs: 1, JSON: true, StandIn: sentence, MinTrue: 50})
		var r report
		if json.Unmarshal([]byte(out), &r) != nil || r.Total.Messages != 2 || r.Conversations[0].Judged[0].Verdict != verdictFalse {
			t.Errorf("it prints %s", out)
		}
		if err == nil || err.Error() != "0.0 % of the receipts are true, and at least 50 % must be" {
			t.Errorf("the error is %v", err)
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r := Receipts{Server: program, Runs: 1, Parallel: 1, Timeout: time.Minute}
		if err := r.run(ctx, io.Discard, io.Discard); err == nil || err.Error() != "it was interrupted after 0 conversations" {
			t.Errorf("the error is %v", err)
		}
	})
	t.Run("out of bounds", func(t *testing.T) {
		for _, r := range []Receipts{{}, {Timeout: -1}, {Timeout: 1, MinTrue: 101}, {Timeout: 1, MinTrue: -1}, {Timeout: 1, PriceOut: -1}} {
			r.Server, r.Runs, r.Parallel = program, 1, 1
			if err := r.run(t.Context(), io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "--min-true") {
				t.Errorf("%+v: the error is %v", r, err)
			}
		}
	})
	t.Run("a server that runs", func(t *testing.T) {
		server, err := load.StartServer(program, filepath.Join(t.TempDir(), "data"))
		if err != nil {
			t.Fatal(err)
		}
		defer server.Kill()
		if out, err := run(Receipts{Runs: 1, URL: "http://" + server.Addr, MinTrue: 100}); err != nil {
			t.Errorf("error %v:\n%s", err, out)
		}
	})
	silent, err := exec.LookPath("true")
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]Receipts{
		"--url must be like":                     {Runs: 1, URL: "127.0.0.1:8080"},
		"--url names a server that runs already": {Runs: 1, URL: "http://127.0.0.1:1", Config: "config.toml"},
		"--stand-in has a configuration":         {Runs: 1, StandIn: careful, Config: "config.toml"},
		"the server did not start":               {Runs: 1, Config: "there-is-none.toml"},
		"it ended and said no address":           {Runs: 1, Server: silent},
		"--url: ":                                {Runs: 1, URL: "http://127.0.0.1:1"},
		"there is nothing to do":                 {Runs: 0},
		"--everyday -1":                          {Runs: 1, Everyday: -1},
	} {
		if _, err := run(r); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("want %q, got %v", name, err)
		}
	}
}

// A conversation that does not end is cancelled, and what is open then is not answered.
func TestTimeout(t *testing.T) {
	server, err := load.StartServer(program, filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Kill()
	endless := &talk{Name: "endless", Turns: []turn{{At: atOnce, Say: "x", Play: "/tool wait {\"duration\":\"60s\"}\n/say y", Want: []string{answered}}}}
	r := Receipts{Timeout: 300 * time.Millisecond}
	a, _ := r.hold(t.Context(), server, endless, 0)
	if a.Unanswered != 1 || a.Judged[0].Verdict != verdictOpen || a.Error != "it was not over after 300ms" {
		t.Errorf("it is %+v", a)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for status := ""; status != "CANCELLED"; {
		body, err := server.Get(ctx, "/api/tasks?session="+a.Session)
		if err != nil {
			t.Fatal(err)
		}
		var list struct{ Items []struct{ Status string } }
		if err := json.Unmarshal(body, &list); err != nil || len(list.Items) != 1 {
			t.Fatalf("the tasks are %s", body)
		}
		status = list.Items[0].Status
	}
}
