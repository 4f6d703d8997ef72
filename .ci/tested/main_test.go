package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGather(t *testing.T) {
	const events = `{"Action":"start","Package":"parley/a"}
{"Action":"output","Package":"parley/a","Test":"TestX","Output":"=== RUN   TestX\n"}
{"Action":"output","Package":"parley/a","Test":"TestX","Output":"    x_test.go:9: NOT TESTED: the page. There is no browser\n"}
{"Action":"skip","Package":"parley/a","Test":"TestX"}
{"Action":"output","Package":"parley/a","Test":"TestY","Output":"    y_test.go:9: the table has | NOT RUN: no address |\n"}
{"Action":"pass","Package":"parley/a","Test":"TestY"}
{"Action":"output","Package":"parley/a","Output":"PASS\n"}
{"Action":"output","Package":"parley/a","Output":"ok  \tparley/a\t0.1s\n"}
{"Action":"pass","Package":"parley/a"}
{"Action":"output","Package":"parley/b","Test":"TestZ","Output":"    z_test.go:3: it is wrong\n"}
{"Action":"fail","Package":"parley/b","Test":"TestZ"}
{"Action":"output","Package":"parley/b","Test":"TestW","Output":"panic: it ends\n"}
{"Action":"fail","Package":"parley/b"}
{"ImportPath":"parley/c","Action":"build-output","Output":"c.go:1: undefined\n"}
not an event
`
	var out, left strings.Builder
	if err := gather(strings.NewReader(events), &out, &left); err != nil {
		t.Fatal(err)
	}
	if want := "ok  \tparley/a\t0.1s\n    z_test.go:3: it is wrong\npanic: it ends\nc.go:1: undefined\nnot an event\n"; out.String() != want {
		t.Errorf("shown is %q, want %q", out.String(), want)
	}
	if want := "NOT TESTED: the page. There is no browser\ta TestX\n"; left.String() != want {
		t.Errorf("left out is %q, want %q", left.String(), want)
	}
}

func TestList(t *testing.T) {
	path := filepath.Join(t.TempDir(), "left")
	var out strings.Builder
	if err := list(path, &out); err != nil || out.String() != "== everything was tested\n" {
		t.Errorf("nothing was left out: %q, %v", out.String(), err)
	}
	text := "NOT RUN: long\tb TestB\nNOT TESTED: no browser\ta TestX\nNOT TESTED: no browser\ta TestY\nNOT TESTED: no root\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if err := list(path, &out); err != nil {
		t.Fatal(err)
	}
	_, got, _ := strings.Cut(out.String(), "\n")
	if want := "  NOT TESTED: no root\n  NOT TESTED: no browser\n      a TestX and 1 more\n  NOT RUN: long\n      b TestB\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
