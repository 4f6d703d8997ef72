package web_test

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"parley/gateway/web"
)

// D-11, D-12, D-15…D-19, M-26, N-01, N-03, N-05: the transcripts in testdata
// and the tests of the formatter, which name these ids, run
// in node. The page itself needs no node.
func TestPageModules(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("NOT TESTED: the page's modules. There is no node in PATH; their tests need node 20 or newer, nothing else")
	}
	version, err := exec.Command(node, "--version").Output()
	if err != nil {
		t.Fatalf("node --version: %v", err)
	}
	args := []string{"--test", "--test-reporter=tap"}
	for _, pattern := range []string{"*.test.js", "testdata/*.json", "testdata/markdown/*.json", "fakedom.js"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no %s here (%v)", pattern, err)
		}
		for _, name := range files {
			// Read here as well, so that go's cached result is not used after a change.
			if _, err := os.ReadFile(name); err != nil {
				t.Fatal(err)
			}
		}
		if pattern == "*.test.js" {
			args = append(args, files...)
		}
	}
	out, err := exec.CommandContext(t.Context(), node, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("node %s --test: %v\n%s", bytes.TrimSpace(version), err, out)
	}
	// A runner that found no test would be content, too.
	for _, name := range []string{"two-tasks.json", "amendment.json", "questions.json", "hostile texts end", "the examples of CommonMark 0.31.2", "the examples of GitHub Flavored Markdown 0.29", "a text that grew is shown as the same text at once"} {
		if !bytes.Contains(out, []byte(name)) {
			t.Errorf("no test about %q ran:\n%s", name, out)
		}
	}
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "# ") && !strings.HasPrefix(line, "# Subtest") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

// sources is the page as it is written; client.js is beside it.
var sources = func() fs.FS {
	files := fstest.MapFS{}
	for _, dir := range []string{"page", "page/vendor", "../../clients/js"} {
		entries, _ := os.ReadDir(dir) // TestFilesAreComplete misses what is not there
		for _, e := range entries {
			if e.IsDir() || dir == "../../clients/js" && e.Name() != "client.js" {
				continue
			}
			text, _ := os.ReadFile(filepath.Join(dir, e.Name()))
			name := e.Name()
			if dir == "page/vendor" {
				name = "vendor/" + name
			}
			files[name] = &fstest.MapFile{Data: text}
		}
	}
	return files
}()

func read(t *testing.T, name string) string { t.Helper(); return readOf(t, sources, name) }

func readOf(t *testing.T, files fs.FS, name string) string {
	t.Helper()
	b, err := fs.ReadFile(files, name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func names(t *testing.T) []string { t.Helper(); return namesOf(t, sources) }

func namesOf(t *testing.T, files fs.FS) []string {
	t.Helper()
	var out []string
	err := fs.WalkDir(files, ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out = append(out, p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Everything that the page loads is there, and everything that is there is loaded: of what
// is written, and of what is made of it and lies in the binary.
func TestFilesAreComplete(t *testing.T) {
	for kind, files := range map[string]fs.FS{"source": sources, "bundle": web.Files} {
		t.Run(kind, func(t *testing.T) { complete(t, files) })
	}
}

var (
	places  = regexp.MustCompile(`(?:src|href)="(/[^"]*)"`)
	imports = regexp.MustCompile(`(?:\bfrom\s*|\bimport\s*\(?)["'](\.[^"']*)["']`)
)

func complete(t *testing.T, files fs.FS) {
	loaded := map[string]bool{"index.html": true, "vendor/licences.txt": true} // nobody loads these, and they have to be there
	for _, m := range places.FindAllStringSubmatch(readOf(t, files, "index.html"), -1) {
		name, ok := strings.CutPrefix(m[1], "/assets/")
		if !ok {
			t.Errorf("index.html loads %s, which is not under /assets/", m[1])
			continue
		}
		loaded[name] = true
	}
	for _, name := range namesOf(t, files) {
		if path.Ext(name) != ".js" || strings.HasPrefix(name, "vendor/") {
			continue
		}
		for _, m := range imports.FindAllStringSubmatch(readOf(t, files, name), -1) {
			if !strings.HasPrefix(m[1], "./") {
				t.Errorf("%s imports %s, which is not beside it", name, m[1])
			}
			loaded[path.Join(path.Dir(name), m[1])] = true
		}
	}
	for _, name := range namesOf(t, files) {
		if !loaded[name] {
			t.Errorf("%s is there and never loaded", name)
		}
		delete(loaded, name)
	}
	for name := range loaded {
		t.Errorf("%s is loaded and not there", name)
	}
}

// The policy default-src 'none' with 'self' for scripts, styles and connections
// must be enough, and no text may become markup.
func TestPageNeedsNoInlineCodeAndMakesNoMarkup(t *testing.T) {
	rules := []struct {
		ext, why string
		re       *regexp.Regexp
	}{
		{".html", "an inline script", regexp.MustCompile(`<script(?:[^>]*)>\s*[^<\s]`)},
		{".html", "an inline style", regexp.MustCompile(`<style|\sstyle=`)},
		{".html", "an inline handler", regexp.MustCompile(`\son[a-z]+=`)},
		{".html", "something from another server", regexp.MustCompile(`(?:src|href)="(?:https?:)?//`)},
		{".js", "markup from a string", regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|setHTML`)},
		{".js", "code from a string", regexp.MustCompile(`\beval\(|new Function|set(?:Timeout|Interval)\(\s*['"]`)},
		{".js", "a style attribute", regexp.MustCompile(`setAttribute\('style'|\bstyle: '`)},
		{".css", "something from elsewhere", regexp.MustCompile(`@import|url\(`)},
	}
	texts := make(map[string]string)
	for kind, files := range map[string]fs.FS{"source": sources, "bundle": web.Files} {
		for _, name := range namesOf(t, files) {
			texts[kind+" "+name] = readOf(t, files, name)
		}
	}
	for name, text := range texts {
		for _, r := range rules {
			if path.Ext(name) != r.ext {
				continue
			}
			// highlight.js can put its colours into an element by itself. The page never asks it to, and
			// the policy's trusted types would stop it.
			if (name == "source vendor/highlight.js" || name == "bundle colours.js") && r.why == "markup from a string" {
				continue
			}
			if m := r.re.FindString(text); m != "" {
				t.Errorf("%s has %s: %q", name, r.why, m)
			}
		}
	}
}

// the placeholder is part of the reply protocol.
func TestReplyPlaceholder(t *testing.T) {
	if !strings.Contains(read(t, "tasks.js"), `placeholder: 'Type your reply...'`) {
		t.Error("the task's reply box has another placeholder")
	}
}
