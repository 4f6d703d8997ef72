package build

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
)

// What "make release" and the Dockerfile write into the program with the linker's flag -X;
// "" = what Go itself has noted is used.
var (
	linkedVersion  string // such as "v1.2.3"
	linkedRevision string // the commit
	linkedDate     string // of the commit, RFC 3339
)

// Info is what is known of a program. Date is the commit's and not the build's, so that the
// same sources make the same bytes; "" = not known, as Revision.
type Info struct {
	Version  string `json:"version"`            // never ""
	Revision string `json:"revision,omitempty"` // the whole hash of the commit
	Date     string `json:"date,omitempty"`     // RFC 3339
	Modified bool   `json:"modified"`           // there were changes that the commit does not have
	Go       string `json:"go"`                 // such as "go1.26.8"
	Platform string `json:"platform"`           // such as "linux/amd64"
}

// This is the program that runs.
func This() Info {
	noted, _ := debug.ReadBuildInfo()
	return of(noted, linkedVersion, linkedRevision, linkedDate)
}

// of joins what Go has noted, nil = nothing, with what was linked in, which wins.
func of(noted *debug.BuildInfo, version, revision, date string) Info {
	i := Info{Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if noted != nil {
		i.Version = noted.Main.Version
		for _, s := range noted.Settings {
			switch s.Key {
			case "vcs.revision":
				i.Revision = s.Value
			case "vcs.time":
				i.Date = s.Value
			case "vcs.modified":
				i.Modified = s.Value == "true"
			}
		}
	}
	if i.Version == "" || i.Version == "(devel)" {
		i.Version = "dev"
	}
	if revision != "" {
		i.Revision = revision
	}
	if date != "" {
		i.Date = date
	}
	switch short := i.Revision[:min(shortHash, len(i.Revision))]; {
	case version != "":
		i.Version = version
	case short != "" && !strings.Contains(i.Version, short):
		i.Version += "+" + short
	}
	return i
}

// shortHash is how much of a commit's hash people are shown, as Go does in versions.
const shortHash = 12

// Print writes the build as a line for people or, asJSON, as an object for programs.
func (i Info) Print(to io.Writer, asJSON bool) error {
	if asJSON {
		text, err := json.Marshal(i)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(to, "%s\n", text)
		return err
	}
	commit := ""
	if i.Revision != "" {
		commit = " commit " + i.Revision[:min(shortHash, len(i.Revision))]
		if i.Date != "" {
			commit += " of " + i.Date
		}
		if i.Modified {
			commit += " with changes"
		}
	}
	_, err := fmt.Fprintf(to, "parley %s%s %s %s\n", i.Version, commit, i.Go, i.Platform)
	return err
}
