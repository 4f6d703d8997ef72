package assemble

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/cmd/parley/internal/config"
	"parley/conversation"
	"parley/models/modelstest"
)

// An answer that was cut off or withheld is told to the log, with the name of the block
// and the key that would help; the same of the same model once a minute.
func TestStopsAreTold(t *testing.T) {
	read, err := config.Load(config.Sources{Path: write(t, "[models.big]\nprovider = \"anthropic\"\nmodel = \"m\"\n[models.agent]\nprovider = \"command\"\ncommand = \"sh\"\n"), Required: true})
	if err != nil {
		t.Fatal(err)
	}
	withheld := &conversation.ModelError{Permanent: true, Failure: conversation.Failure{Code: conversation.Forbidden, Message: "withheld"}}
	cut := "ended at its limit of tokens"
	for _, c := range []struct {
		name, block string
		turn        modelstest.FakeTurn
		says        []string // in the log; none = nothing
	}{
		{"at the limit", "big", modelstest.FakeTurn{Says: "x", Stop: conversation.StopLength}, []string{cut, `"model":"big"`, `"key":"models.big.max_output_tokens"`, `"session":"s1"`}},
		{"withheld in part", "big", modelstest.FakeTurn{Says: "x", Stop: conversation.StopFiltered}, []string{"withheld", `"model":"big"`}},
		{"withheld whole", "big", modelstest.FakeTurn{Err: withheld}, []string{"withheld", `"model":"big"`}},
		{"no key bounds an agent's answers", "agent", modelstest.FakeTurn{Says: "x", Stop: conversation.StopLength}, []string{cut, `"model":"agent"`}},
		{"by itself", "big", modelstest.FakeTurn{Says: "x"}, nil},
		{"another failure", "big", modelstest.FakeTurn{Err: modelstest.Failing(true, 0)}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				m := newTold(&modelstest.Fake{Name: "m", Turns: []modelstest.FakeTurn{c.turn}}, &read, c.block, slog.New(slog.NewJSONHandler(&log, nil)))
				for i, want := range []int{1, 1, 2} {
					if i == 2 {
						<-time.After(warnEvery)
					}
					modelstest.Ask(t.Context(), m, conversation.Request{Session: "s1", Stream: true})
					if c.says == nil {
						want = 0
					}
					if n := strings.Count(log.String(), "WARN"); n != want {
						t.Fatalf("after call %d the log has %d warnings, want %d: %s", i, n, want, log.String())
					}
				}
				for _, word := range c.says {
					if !strings.Contains(log.String(), word) {
						t.Errorf("the log does not say %s: %s", word, log.String())
					}
				}
				if c.says != nil && !strings.Contains(log.String(), `"unsaid":1`) {
					t.Errorf("it does not say how many were left out: %s", log.String())
				}
				if strings.Contains(log.String(), "key") != (c.turn.Stop == conversation.StopLength && c.block == "big") {
					t.Errorf("which key: %s", log.String())
				}
			})
		})
	}
}
