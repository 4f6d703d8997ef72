package deploy

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// What "make release" makes: an archive that unpacks, a program in it that says which one it is,
// checksums that fit, a bill of materials with what is linked, and the same bytes again.
func TestRelease(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT RUN: the release archives. The program is built twice for them")
	}
	if _, err := command(t, nil, "git", "rev-parse", "HEAD"); err != nil {
		t.Skip("NOT TESTED: the release archives. This is no clone, or git does not trust it: what is built is named by the commit")
	}
	platforms, found := "host", []string{runtime.GOOS + "/" + runtime.GOARCH}
	if os.Getenv("PARLEY_RELEASE") == "all" {
		platforms, found = "", []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64"}
	}
	const version = "v0.1.0-test"
	make := func() (string, map[string]string) {
		dir := t.TempDir()
		out, err := command(t, []string{"OUT=" + dir, "VERSION=" + version, "PLATFORMS=" + platforms}, "bash", ".ci/release")
		if err != nil {
			t.Fatalf(".ci/release: %v\n%s", err, out)
		}
		t.Log(out)
		sums := map[string]string{}
		for line := range strings.Lines(read(t, dir, "SHA256SUMS")) {
			sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
			sums[name] = sum
		}
		return dir, sums
	}
	dir, sums := make()
	if want := 2*len(found) + 1; len(sums) != want {
		t.Errorf("SHA256SUMS has %d lines, want %d", len(sums), want)
	}
	for name, want := range sums {
		if sum := sha256.Sum256([]byte(read(t, dir, name))); hex.EncodeToString(sum[:]) != want {
			t.Errorf("the checksum of %s does not fit", name)
		}
	}
	linked := linkedModules(t)
	for _, platform := range found {
		name := "parley-" + version + "-" + strings.ReplaceAll(platform, "/", "-")
		to := t.TempDir()
		files := unpack(t, filepath.Join(dir, name+".tar.gz"), to)
		for _, want := range []string{"parley", "LICENSE", "README.md", "config.toml", "systemd/parley.service"} {
			if !slices.Contains(files, name+"/"+want) {
				t.Errorf("%s has no %s", name, want)
			}
		}
		for _, kind := range []string{"grafana", "prometheus"} { // as far as metrics has them
			for _, path := range glob(t, root, "metrics", kind, "*.*") {
				if !strings.HasSuffix(path, ".go") && !slices.Contains(files, name+"/"+kind+"/"+filepath.Base(path)) {
					t.Errorf("%s has no %s/%s", name, kind, filepath.Base(path))
				}
			}
		}
		program := filepath.Join(to, name, "parley")
		if platform == runtime.GOOS+"/"+runtime.GOARCH {
			out, err := exec.Command(program, "version", "--json").Output()
			var is struct{ Version, Revision, Date, Platform string }
			if err != nil || json.Unmarshal(out, &is) != nil || is.Version != version || len(is.Revision) != 40 || is.Date == "" || is.Platform != platform {
				t.Errorf("%s says that it is %s, %v", name, out, err)
			}
			if info := `revision="` + is.Revision + `",version="` + version + `"} 1`; !strings.Contains(scrape(t, program), info) {
				t.Errorf("the metrics of %s do not say %s", name, info)
			}
			if out, err := exec.Command(program, "config", "check", "--config", filepath.Join(to, name, "config.toml")).CombinedOutput(); err != nil {
				t.Errorf("the program refuses the config.toml beside it: %v %s", err, out)
			}
		}
		if components := componentsOf(t, filepath.Join(dir, name+".cdx.json"), version); platform == "linux/amd64" || platform == runtime.GOOS+"/"+runtime.GOARCH {
			if !slices.Equal(components, linked) {
				t.Errorf("the bill of materials of %s has\n%v\nand linked are\n%v", name, components, linked)
			}
		}
	}
	_, again := make()
	for name, sum := range sums {
		if again[name] != sum {
			t.Errorf("%s has other bytes the second time", name)
		}
	}
}

// scrape starts a program and returns its metrics.
func scrape(t *testing.T, program string) string {
	t.Helper()
	server := exec.CommandContext(t.Context(), program, "--listen", "127.0.0.1:0", "--data", t.TempDir())
	server.Dir = t.TempDir()
	log, err := server.StderrPipe()
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Process.Kill(); _ = server.Wait() }()
	for lines := bufio.NewScanner(log); lines.Scan(); {
		var line struct{ Msg, Address string }
		if json.Unmarshal(lines.Bytes(), &line) != nil || line.Msg != "parley serves" {
			continue
		}
		resp, err := http.Get("http://" + line.Address + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	t.Fatal("it did not start")
	return ""
}

// linkedModules are those of the program without cgo, as releases are built, and the standard library.
// That all of them are in docs/deps.txt is another test.
func linkedModules(t *testing.T) []string {
	t.Helper()
	list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./cmd/parley")
	list.Dir, list.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	modules := append(strings.Fields(string(out)), "std")
	slices.Sort(modules)
	return slices.DeleteFunc(slices.Compact(modules), func(m string) bool { return m == "parley" })
}

// componentsOf are the names of what a CycloneDX document lists.
func componentsOf(t *testing.T, path, version string) []string {
	t.Helper()
	var bom struct {
		Format   string `json:"bomFormat"`
		Metadata struct {
			Component struct{ Name, Version string }
		}
		Parts []struct{ Name string } `json:"components"`
	}
	if err := json.Unmarshal([]byte(read(t, path)), &bom); err != nil {
		t.Fatal(err)
	}
	if main := bom.Metadata.Component; bom.Format != "CycloneDX" || main.Name != "parley" || main.Version != version {
		t.Errorf("%s is %s of %+v", path, bom.Format, main)
	}
	var names []string
	for _, p := range bom.Parts {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return names
}

// unpack unpacks an archive and returns the names of its files.
func unpack(t *testing.T, archive, to string) []string {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 {
			t.Errorf("%s belongs to %d:%d", h.Name, h.Uid, h.Gid)
		}
		names = append(names, h.Name)
		path := filepath.Join(to, filepath.FromSlash(h.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		out, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, os.FileMode(h.Mode))
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(out, r)
		if closed := out.Close(); err != nil || closed != nil {
			t.Fatal(err, closed)
		}
	}
}

func glob(t *testing.T, path ...string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return paths
}
