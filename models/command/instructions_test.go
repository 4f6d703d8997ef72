package command

import (
	"bytes"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"parley/conversation"
)

// The agent's own prompt reaches it by prompt_arg, with the marker and the broken
// mentions explained; without the argument nothing does.
func TestInstructions(t *testing.T) {
	const own = "You are the support of Acme.\nBe \"short\"."
	marker := "If you cannot go on without an answer of the user, end with a line that begins with ASK:, your question behind it, and stop: " +
		"the reply comes with the next prompt."
	for name, c := range map[string]struct {
		arg, system, marker, text string
		wrapUp                    bool
		tools                     []conversation.ToolSpec
		want                      string // "" = no argument
	}{
		"its prompt":       {arg: "--system", system: own, want: own},
		"nothing to say":   {arg: "--system"},
		"blank":            {arg: "--system", system: " \n"},
		"no argument":      {system: own, marker: "ASK:"},
		"other program":    {arg: PromptArgAuto, system: own, marker: "ASK:"},
		"the marker":       {arg: "--system", marker: "ASK:", want: marker},
		"both":             {arg: "--system", system: own, marker: "ASK:", want: own + "\n\n" + marker},
		"at the limit":     {arg: "--system", system: own, marker: "ASK:", wrapUp: true, want: own},
		"with a mention":   {arg: "--system", text: "see @a", want: brokenWord},
		"begins with -":    {arg: "--system", system: "- be short", want: "- be short"},
		"zero byte":        {arg: "--system", system: "a\x00b", want: "ab"},
		"another's prompt": {arg: "--system", system: "Call respondToUser.", tools: []conversation.ToolSpec{{Name: conversation.ToolRespond}}},
	} {
		t.Run(name, func(t *testing.T) {
			o := agent("report", "--model", "m")
			o.PromptArg, o.AskMarker = c.arg, c.marker
			r := say("Hello")
			if c.text != "" {
				r = say(c.text)
			}
			r.System, r.WrapUp, r.Tools = c.system, c.wrapUp, c.tools
			got := told(t, open(t, o), r)
			want := []string{"--model", "m"}
			if c.want != "" {
				want = append(want, "--system", c.want)
			}
			if got := got.Args[:len(got.Args)-2]; !reflect.DeepEqual(got, want) {
				t.Errorf("the arguments are %q, want %q", got, want)
			}
		})
	}
	if got := (&Options{AskMarker: "ASK:"}).instructions(&conversation.Request{}, false); got != "" {
		t.Errorf("a summary is asked for with %q", got)
	}
}

// "auto" knows the claude command, unless it is given the argument already.
func TestPromptArgOfClaude(t *testing.T) {
	for _, c := range []struct {
		command string
		args    []string
		arg     string
		want    string
	}{
		{"claude", nil, PromptArgAuto, "--append-system-prompt"},
		{"/opt/bin/claude", []string{"--model", "opus"}, PromptArgAuto, "--append-system-prompt"},
		{"claude", nil, "", ""},
		{"claude", []string{"--append-system-prompt", "Be short."}, PromptArgAuto, ""},
		{"claude", []string{"--append-system-prompt=Be short."}, PromptArgAuto, ""},
		{"claude", []string{"--append-system-prompt-file", "a.md"}, PromptArgAuto, ""},
		{"other", nil, PromptArgAuto, ""},
		{"other", nil, "--instructions", "--instructions"},
	} {
		o := DefaultOptions()
		o.Command, o.Args, o.PromptArg = c.command, c.args, c.arg
		if got := o.promptArg(); got != c.want || o.TakesPrompt() != (c.want != "") {
			t.Errorf("%s %q with %q: %q, want %q", c.command, c.args, c.arg, got, c.want)
		}
	}
}

// an agent's prompt that no argument can hold is refused before anything runs, by
// the configuration too.
func TestInstructionsTooLong(t *testing.T) {
	o := agent("report")
	o.PromptArg, o.AskMarker, o.MaxResponseLength = "--system", "ASK:", 1<<20
	at := maxArg - len(markerWord) + len("%s") - len("ASK:") - len(brokenWord) - 2*len("\n\n")
	r := say("see @a")
	r.System = strings.Repeat("x", at)
	if err := o.CheckPrompt(r.System); err != nil {
		t.Error(err)
	}
	if got := told(t, open(t, o), r); len(got.Args[1]) != maxArg {
		t.Errorf("the longest prompt came with %d bytes", len(got.Args[1]))
	}
	r.System += "x"
	if err := o.CheckPrompt(r.System); err == nil || err.Error() != fmt.Sprintf("it has %d bytes, and the argument --system can hold %d", at+1, at) {
		t.Errorf("one byte more: %v", err)
	}
	if f := failureOf(t, open(t, o), r); f.Failure.Code != conversation.TooLarge || !f.NothingRan {
		t.Errorf("one byte more: %+v", f)
	}
	if err := o.CheckPrompt("a\x00"); err == nil {
		t.Error("a zero byte is let through")
	}
	o.PromptArg = ""
	if err := o.CheckPrompt(r.System); err != nil {
		t.Errorf("a prompt that is not given: %v", err)
	}
}

// nothing of an agent's own prompt is in the log.
func TestLogHidesInstructions(t *testing.T) {
	var log bytes.Buffer
	o := shell(`echo "cannot: $2" >&2; exit 1`) // $1 is the argument's name
	o.PromptArg, o.Logger = "--system", slog.New(slog.NewJSONHandler(&log, nil))
	r := say("x")
	r.System = "The code of the safe is 4711."
	failureOf(t, open(t, o), r)
	if got := log.String(); strings.Contains(got, "4711") || !strings.Contains(got, "cannot: [prompt]") {
		t.Errorf("the log is %s", got)
	}
}
