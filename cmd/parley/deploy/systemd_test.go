package deploy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The most that "systemd-analyze security" may find exposed, in tenths; a bare unit has 9.2.
const exposed = "20"

// What systemd itself says of the unit: that it is one, and how little of the machine the server can reach.
func TestSystemdUnit(t *testing.T) {
	need(t, "systemd-analyze", "the systemd unit")
	unit := read(t, "systemd", "parley.service")
	for name, dropIn := range map[string]string{"parley.service": "", "with agents": read(t, "systemd", "agents.conf")} {
		dir := t.TempDir()
		program := filepath.Join(dir, "parley") // the unit's is not on this machine
		if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		installed := strings.ReplaceAll(unit, "/usr/local/bin/parley ", program+" ")
		if installed == unit {
			t.Fatal("the unit does not start /usr/local/bin/parley")
		}
		path := filepath.Join(dir, "parley.service")
		before, install, _ := strings.Cut(installed, "[Install]")
		if err := os.WriteFile(path, []byte(before+dropIn+"\n[Install]"+install), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := command(t, nil, "systemd-analyze", "verify", "--man=no", path); err != nil || strings.Contains(out, path) {
			t.Errorf("%s: systemd-analyze verify: %v\n%s", name, err, out)
		}
		if out, err := command(t, nil, "systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold="+exposed, path); err != nil {
			t.Errorf("%s: more than %s tenths are exposed: %v\n%s", name, exposed, err, out)
		}
	}
}

// The unit waits longer for the end than the server takes by its default, and hears of a longer one.
func TestSystemdUnitFitsTheServer(t *testing.T) {
	unit := read(t, "systemd", "parley.service")
	for _, line := range []string{
		"Type=notify", "WatchdogSec=60s", "Restart=on-failure", "StateDirectory=parley", "Environment=PARLEY_DATA=/var/lib/parley",
		"TimeoutStopSec=45s", // drain.timeout 10 s, closing 15 s, letGo 15 s (serve.go), and some
		"LimitNOFILE=65536", "DynamicUser=yes", "CapabilityBoundingSet=", "MemoryDenyWriteExecute=yes",
	} {
		if !strings.Contains(unit, "\n"+line+"\n") {
			t.Errorf("parley.service has no line %q", line)
		}
	}
}
