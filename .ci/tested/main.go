// Command tested reads what "go test -json" writes, prints what "go test" would print, and
// gathers in a file what was left out: the tests that say NOT TESTED (something is missing
// on this machine) or NOT RUN (it was not asked for), which go test alone would not show.
//
//	go test -json ./... | go run ./.ci/tested FILE    adds to FILE
//	go run ./.ci/tested -list FILE                    prints what it holds
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

func main() {
	var err error
	switch args := os.Args[1:]; {
	case len(args) == 2 && args[0] == "-list":
		err = list(args[1], os.Stdout)
	case len(args) == 1:
		var file *os.File
		if file, err = os.OpenFile(args[0], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644); err == nil {
			err = gather(os.Stdin, os.Stdout, file)
		}
	default:
		err = fmt.Errorf("tested FILE, or tested -list FILE")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tested:", err)
		os.Exit(1)
	}
}

// event is a line of "go test -json".
type event struct {
	Action, Package, Test, Output string
}

// gather reads events from in, writes to out what a person wants to see, and to left a line
// for each test that was left out. It fails only where it cannot read or write: that tests
// fail is go test's to say.
func gather(in io.Reader, out, left io.Writer) error {
	said := map[string]map[string]*strings.Builder{} // by package and test: until it has ended
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if err == io.EOF && line == "" {
			return nil
		}
		if err != nil && err != io.EOF {
			return err
		}
		var e event
		if json.Unmarshal([]byte(line), &e) != nil {
			fmt.Fprint(out, line) // not an event: something else has written here
			continue
		}
		tests := said[e.Package]
		if tests == nil {
			tests = map[string]*strings.Builder{}
			said[e.Package] = tests
		}
		switch {
		case e.Action == "output" && e.Test == "":
			if shown(e.Output) {
				fmt.Fprint(out, e.Output)
			}
		case e.Action == "output":
			if tests[e.Test] == nil {
				tests[e.Test] = &strings.Builder{}
			}
			tests[e.Test].WriteString(e.Output)
			if why := leftOut(e.Output); why != "" {
				if _, err := fmt.Fprintf(left, "%s\t%s %s\n", why, strings.TrimPrefix(e.Package, "parley/"), e.Test); err != nil {
					return err
				}
			}
		case e.Action == "build-output":
			fmt.Fprint(out, e.Output)
		case e.Action == "fail" && e.Test == "": // a panic, or the time is over: who ran has no end of its own
			for _, b := range tests {
				fmt.Fprint(out, b)
			}
			delete(said, e.Package)
		case e.Action == "fail":
			if b := tests[e.Test]; b != nil {
				fmt.Fprint(out, b)
			}
			delete(tests, e.Test)
		case e.Action == "pass" || e.Action == "skip":
			delete(tests, e.Test)
			if e.Test == "" {
				delete(said, e.Package)
			}
		}
	}
}

// shown is false for what a package writes besides its result.
func shown(output string) bool {
	return output != "PASS\n" && !strings.HasPrefix(output, "=== ") && !strings.HasPrefix(output, "testing: warning: no tests to run")
}

// leftOut is what a line of a test says was left out, with its reason; "" = nothing.
func leftOut(output string) string {
	for _, mark := range []string{"NOT TESTED: ", "NOT RUN: "} {
		if _, why, ok := strings.Cut(output, mark); ok && strings.HasPrefix(strings.TrimSpace(output[strings.Index(output, ": ")+2:]), mark) {
			return mark + strings.TrimSpace(why)
		}
	}
	return ""
}

// list prints what the file holds, each reason once.
func list(path string, out io.Writer) error {
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	var reasons []string
	tests := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		why, test, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !slices.Contains(reasons, why) {
			reasons = append(reasons, why)
		}
		if test != "" && !slices.Contains(tests[why], test) {
			tests[why] = append(tests[why], test)
		}
	}
	if len(reasons) == 0 {
		_, err = fmt.Fprintln(out, "== everything was tested")
		return err
	}
	fmt.Fprintf(out, "== passed, but not everything was tested (%s):\n", path)
	slices.Sort(reasons)
	for _, why := range slices.Backward(reasons) { // what is missing before what was not asked for
		fmt.Fprintf(out, "  %s\n", why)
		if names := tests[why]; len(names) > 0 {
			more := ""
			if len(names) > 1 {
				more = fmt.Sprintf(" and %d more", len(names)-1)
			}
			fmt.Fprintf(out, "      %s%s\n", names[0], more)
		}
	}
	return nil
}
