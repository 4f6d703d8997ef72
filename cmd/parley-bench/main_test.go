package main

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// What cannot be measured is refused before minutes have gone by.
func TestSenselessFlagsAreRefused(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ line, names string }{
		{"run --rounds=0", "--rounds"},
		{"run --duration=0s", "--duration"},
		{"run --record=" + dir + "/absent/history.toml", "--record"},
		{"start --data=" + dir + "/absent", "--data"},
		{"start --data=" + dir + " --times=0", "--times"},
		{"profile --clients=-5", "--clients"},
		{"profile --duration=0s", "--duration"},
		{"hostile --duration=1ms", "--duration"},
		{"hostile --duration=1h", "--duration"},
		{"hostile --only=nothing", "--only"},
		{"hostile --guard=1", "--guard"},
		{"soak --rate=-1", "--rate"},
		{"soak --duration=0s", "--duration"},
		{"soak --live=0", "--live"},
		{"soak --row=0", "--row"},
		{"peers --rounds=0", "--rounds"},
		{"peers --clients=1,0", "--clients"},
		{"size --turns=-1", "--turns"},
		{"failover --times=0", "--times"},
		{"compare --sends=0", "--sends"},
		{"run --rounds=1 --duration=1s --record=" + dir + "/history.toml", ""},
		{"profile", ""},
		{"soak", ""},
		{"hostile --only=pings,end", ""},
		{"peers", ""},
		{"size", ""},
	} {
		parser, err := kong.New(&commandLine{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = parser.Parse(strings.Fields(c.line))
		switch {
		case c.names == "" && err != nil:
			t.Errorf("%s: %v", c.line, err)
		case c.names != "" && (err == nil || !strings.Contains(err.Error(), c.names)):
			t.Errorf("%s: %v, want a refusal that names %s", c.line, err, c.names)
		}
	}
}
