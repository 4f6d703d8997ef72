package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"
)

// why an agent failed is in one line of the log, also when it says so on its
// standard output; the user is not told it.
func TestFailureInItsOwnWords(t *testing.T) {
	const (
		login  = "Not logged in · Please run /login"
		result = `{"type":"result","subtype":"success","is_error":true,"result":"` + login + `"}`
		begin  = `{"type":"system","subtype":"init","tools":["Bash"]}`
		retry  = `{"type":"system","subtype":"api_retry","attempt":3,"error":"overloaded"}`
		read   = `{"type":"user","message":{"content":[{"type":"tool_result","content":"the diary of a user"}]}}`
	)
	for name, c := range map[string]struct {
		format  Format
		script  string
		message string
		words   string
		cut     bool
	}{
		"text":                         {FormatText, "echo '" + login + "'; exit 1", "the command-line agent failed", login, false},
		"text without a newline":       {FormatText, "printf '" + login + "'; exit 1", "the command-line agent failed", login, false},
		"text of one that is too slow": {FormatText, "echo 'asking again in 3600 s'; sleep 600", "the command-line agent timed out", "asking again in 3600 s", false},
		"its result":                   {FormatStreamJSON, "echo '" + read + "'; echo '" + result + "'; exit 1", "the command-line agent failed", login, false},
		"its result, with status 0":    {FormatStreamJSON, "printf '" + result + "'", "the command-line agent says that it has failed", login, false},
		"not of the format":            {FormatStreamJSON, "echo '" + login + "'; exit 1", "the command-line agent failed", login, false},
		"of itself only":               {FormatStreamJSON, "echo '" + begin + "'; echo '" + read + "'; echo '" + retry + "'; sleep 600", "the command-line agent timed out", retry, true},
		"with the prompt in it":        {FormatText, `echo "refused: my password is hunter2"; exit 1`, "the command-line agent failed", "refused: [prompt]", false},
		"with a secret in it":          {FormatText, `echo "refused: $TOKEN"; exit 1`, "the command-line agent failed", "refused: [secret]", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			o := shell(c.script)
			o.Format, o.Logger, o.Env = c.format, slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})), map[string]string{"TOKEN": "s3cr3t-0815"}
			if strings.Contains(c.script, "sleep") {
				o.Timeout = 2 * time.Second
			}
			f := failureOf(t, open(t, o), say("my password is hunter2"))
			if shown := fmt.Sprint(f.Failure, f.Err); strings.Contains(shown, c.words) {
				t.Errorf("the failure is %s", shown)
			}
			var line struct {
				Level, Msg, Stdout string
				Cut                bool `json:"stdout_cut"`
			}
			if err := json.Unmarshal(log.Bytes(), &line); err != nil {
				t.Fatalf("not one line (%v): %s", err, log.String())
			}
			if line.Level != "WARN" || line.Msg != c.message || line.Stdout != c.words || line.Cut != c.cut {
				t.Errorf("the log says %+v", line)
			}
		})
	}
}

// An answer is not in the log, nor what an agent had written that was stopped.
func TestAnswerIsNotLogged(t *testing.T) {
	var log bytes.Buffer
	o := shell("echo a private answer")
	o.Logger = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	text(t, open(t, o), say("x"))
	o.Args[1] += "; sleep 600"
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := ask(ctx, open(t, o), say("x"), cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("the call ended with %v", err)
	}
	if !strings.Contains(log.String(), "has answered") || !strings.Contains(log.String(), "was stopped") || strings.Contains(log.String(), "private") {
		t.Errorf("the log is %s", log.String())
	}
}

// the environment is the server's, without what is withheld, and with what is set.
func TestEnvironment(t *testing.T) {
	o := Options{Env: map[string]string{"B": "own", "A_NEW": "=1"}, Withhold: []string{"SECRET", "B2"}}
	got := o.environment([]string{"A=1", "SECRET=s", "B=server's", "SECRET_NOT=2", "EMPTY=", "SECRET=again"})
	if want := []string{"A=1", "SECRET_NOT=2", "EMPTY=", "A_NEW==1", "B=own"}; !reflect.DeepEqual(got, want) {
		t.Errorf("the environment is %q", got)
	}
}
