package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"parley/cmd/parley/internal/config"
)

// Programs that run another one as somebody else, or where it sees less. What stands
// behind one is not looked at.
var (
	otherUsers = []string{"sudo", "doas", "su", "runuser", "setpriv"} // their processes belong to another user
	enclosures = []string{"bwrap", "chroot", "docker", "firejail", "kubectl", "nsenter", "podman", "ssh", "systemd-run", "unshare"}
)

// account is what counts of the user that this program runs as.
type account struct {
	root    bool
	mayKill bool // also processes of other users
}

// ownAccount is this process's.
func ownAccount() account {
	a := account{root: os.Geteuid() == 0}
	a.mayKill = a.root
	status, _ := os.ReadFile("/proc/self/status") // without it there are no capabilities
	for line := range strings.Lines(string(status)) {
		var effective uint64
		if n, _ := fmt.Sscanf(line, "CapEff: %x", &effective); n == 1 {
			a.mayKill = effective&(1<<5) != 0 // CAP_KILL
		}
	}
	return a
}

// agentNotes says what the program of a command-line agent can reach beyond its
// directory: who chats steers it. Nothing is asked of it.
func agentNotes(c *config.Config, b *config.ModelBlock, configPath string, who account) []string {
	const more = `; docs/MODELS.md, "What an agent may do"`
	var notes []string
	if withheld := b.Withheld(c); len(withheld) > 0 {
		notes = append(notes, "it does not inherit "+strings.Join(withheld, ", ")+", in which other blocks keep secrets (inherit = […] gives it one)")
	}
	program := filepath.Base(b.Command.Command)
	switch {
	case slices.Contains(otherUsers, program):
		if !who.mayKill {
			notes = append(notes, "a server of this user cannot stop what "+program+" runs as another user: give it CAP_KILL"+more)
		}
		return notes
	case slices.Contains(enclosures, program):
		return notes
	case who.root:
		notes = append(notes, "it runs as root, so who chats may come to read and change everything here: run the server as another user"+more)
	default:
		if secrets := readable(c, configPath); len(secrets) > 0 {
			notes = append(notes, "it runs as the server's user, and can read "+strings.Join(secrets, ", ")+": run it as a user of its own, or deny it these"+more)
		}
	}
	if b.Command.Dir == "" {
		dir, _ := os.Getwd()
		notes = append(notes, "it works in the server's own directory ("+cmp.Or(dir, ".")+"): give it a dir of its own"+more)
	}
	return notes
}

// readable are the files of the server that this user can read and that are nobody
// else's business: the data directory, the configuration, the keys.
func readable(c *config.Config, configPath string) (list []string) {
	paths := []string{configPath}
	if !c.Ephemeral() {
		paths = append(paths, c.Data)
	}
	for i := range c.Models {
		paths = append(paths, c.Models[i].KeyFile)
	}
	for _, path := range paths {
		if path == "" || slices.Contains(list, path) {
			continue
		}
		f, err := os.Open(path)
		if err != nil {
			continue // it is not there yet, or it cannot read it
		}
		_ = f.Close() // it was not even read
		list = append(list, path)
	}
	return list
}
