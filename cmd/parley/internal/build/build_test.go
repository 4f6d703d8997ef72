package build

import (
	"encoding/json"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

func TestOf(t *testing.T) {
	const commit = "7efa21707efa21707efa21707efa21707efa2170"
	noted := func(version string, settings ...string) *debug.BuildInfo {
		b := &debug.BuildInfo{Main: debug.Module{Version: version}}
		for i := 0; i < len(settings); i += 2 {
			b.Settings = append(b.Settings, debug.BuildSetting{Key: settings[i], Value: settings[i+1]})
		}
		return b
	}
	for name, c := range map[string]struct {
		noted                   *debug.BuildInfo
		version, revision, date string
		want                    Info
	}{
		"nothing is known":     {nil, "", "", "", Info{Version: "dev"}},
		"go run":               {noted("(devel)"), "", "", "", Info{Version: "dev"}},
		"go build in a clone":  {noted("v0.0.0-20261124154943-7efa21707efa+dirty", "vcs.revision", commit, "vcs.time", "2026-11-24T15:49:43Z", "vcs.modified", "true"), "", "", "", Info{Version: "v0.0.0-20261124154943-7efa21707efa+dirty", Revision: commit, Date: "2026-11-24T15:49:43Z", Modified: true}},
		"an older go build":    {noted("(devel)", "vcs.revision", commit), "", "", "", Info{Version: "dev+7efa21707efa", Revision: commit}},
		"a release":            {noted("v0.0.0-1", "vcs.revision", commit, "vcs.modified", "false"), "v1.2.3", "", "", Info{Version: "v1.2.3", Revision: commit}},
		"a build without .git": {noted("(devel)"), "v1.2.3", commit, "2026-11-24T15:49:43Z", Info{Version: "v1.2.3", Revision: commit, Date: "2026-11-24T15:49:43Z"}},
	} {
		c.want.Go, c.want.Platform = runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH
		if got := of(c.noted, c.version, c.revision, c.date); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestPrint(t *testing.T) {
	i := Info{Version: "v1.2.3", Revision: "7efa21707efa2170", Date: "2026-11-24T15:49:43Z", Modified: true, Go: "go1.26.8", Platform: "linux/amd64"}
	var line, object strings.Builder
	if err := i.Print(&line, false); err != nil {
		t.Fatal(err)
	}
	if want := "parley v1.2.3 commit 7efa21707efa of 2026-11-24T15:49:43Z with changes go1.26.8 linux/amd64\n"; line.String() != want {
		t.Errorf("%q, want %q", line.String(), want)
	}
	if err := i.Print(&object, true); err != nil {
		t.Fatal(err)
	}
	var back Info
	if err := json.Unmarshal([]byte(object.String()), &back); err != nil || back != i {
		t.Errorf("%s is %+v, %v", object.String(), back, err)
	}
	line.Reset()
	if err := (Info{Version: "dev", Go: "go1", Platform: "p"}).Print(&line, false); err != nil || line.String() != "parley dev go1 p\n" {
		t.Errorf("%q, %v", line.String(), err)
	}
}
