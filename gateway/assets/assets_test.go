package assets_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/andybalholm/brotli"

	"parley/gateway/assets"
)

func page(t *testing.T, app string) *assets.Page {
	t.Helper()
	p, err := assets.New(fstest.MapFS{
		"index.html":    {Data: []byte(`<head><link rel="stylesheet" href="/assets/s.css"><script type="module" src="/assets/app.js"></script></head><a href="/other">`)},
		"app.js":        {Data: []byte(app)},
		"a.js":          {Data: []byte("import {\n  b,\n} from './lib/b.js';\nimport './app.js';\nimport('./late.js');")},
		"lib/b.js":      {Data: []byte(`"use strict";import{c as d}from"./c.js";import("./later.js")`)},
		"lib/c.js":      {Data: []byte("export const c = 1;")},
		"late.js":       {Data: []byte("export {};")},
		"assets/s.css":  {Data: []byte("body{}")},
		"lib/words.txt": {Data: []byte("words")},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Places change with the content of any file; modules are named in the page, those that
// are imported later are not.
func TestPlaces(t *testing.T) {
	p := page(t, "import './a.js';")
	body, _, _ := p.Index().Body("")
	text := string(body)
	_, rest, _ := strings.Cut(text, `href="/assets/`)
	version, _, _ := strings.Cut(rest, "/")
	if len(version) != 16 || strings.Contains(strings.ReplaceAll(text, "/assets/"+version+"/", ""), "/assets/") || !strings.Contains(text, `href="/other"`) {
		t.Errorf("places: %s", text)
	}
	for name, n := range map[string]int{"app.js": 1, "a.js": 1, "lib/b.js": 1, "lib/c.js": 1, "late.js": 0} {
		if got := strings.Count(text, `<link rel="modulepreload" href="/assets/`+version+"/"+name+`">`); got != n {
			t.Errorf("%s is announced %d times, not %d", name, got, n)
		}
	}
	other, _, _ := page(t, "import './a.js'; ").Index().Body("")
	if strings.Contains(string(other), version) {
		t.Error("another content has the same places")
	}
	for place, want := range map[string]struct{ found, fixed bool }{
		version + "/app.js": {true, true}, version + "/lib/c.js": {true, true}, "app.js": {true, false}, "lib/words.txt": {true, false},
		"0123456789abcdef/app.js": {true, false}, version + "/none.js": {false, true}, version: {false, false}, "": {false, false},
		version + "/" + version + "/app.js": {false, true}, "0123/app.js": {false, false}, version + "/../app.js": {false, true},
	} {
		f, fixed := p.Find(place)
		if (f != nil) != want.found || (f != nil && fixed != want.fixed) {
			t.Errorf("%q: %v, %v", place, f != nil, fixed)
		}
	}
}

func TestNoPage(t *testing.T) {
	if p, err := assets.New(nil); err != nil || !p.Empty() {
		t.Errorf("%v", err)
	}
	if _, err := assets.New(fstest.MapFS{"app.js": {}}); err == nil {
		t.Error("a page without index.html")
	}
}

// Who takes a coding is sent it, under a tag of its own; the bytes are the same.
func TestCodings(t *testing.T) {
	content := []byte(strings.Repeat("const parley = 'talks'; ", 100))
	f := assets.NewFile(content, "text/javascript; charset=utf-8")
	tags := make(map[string]string)
	for accept, want := range map[string]string{
		"": "", "gzip": "gzip", "br": "br", "gzip, deflate, br": "br", "br;q=0, gzip": "gzip", "br; q=0.0, gzip;q=0": "", "GZIP": "gzip",
		"identity": "", "*": "", "br;q=x": "", "deflate, zstd": "", "brotli": "", "gzip;q=0.5": "gzip",
	} {
		body, coding, tag := f.Body(accept)
		if coding != want {
			t.Errorf("%q is sent %q, not %q", accept, coding, want)
		}
		if other, ok := tags[coding]; ok && other != tag {
			t.Errorf("%q has the tags %s and %s", coding, tag, other)
		}
		tags[coding] = tag
		var r io.Reader = bytes.NewReader(body)
		switch coding {
		case "gzip":
			z, err := gzip.NewReader(r)
			if err != nil {
				t.Fatal(err)
			}
			r = z
		case "br":
			r = brotli.NewReader(r)
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%q: other bytes (%v)", accept, err)
		}
		if coding != "" && len(body) > len(content)/4 {
			t.Errorf("%q: %d of %d bytes", coding, len(body), len(content))
		}
	}
	if len(tags) != 3 || tags["br"] == tags["gzip"] || tags["br"] == tags[""] {
		t.Errorf("tags: %v", tags)
	}
	for _, small := range []*assets.File{assets.NewFile([]byte("x"), "text/css"), assets.NewFile(content, "image/png")} {
		if _, coding, _ := small.Body("br, gzip"); coding != "" || small.Varies() {
			t.Errorf("%s is sent as %q", small.Kind, coding)
		}
	}
}

func TestHas(t *testing.T) {
	for list, want := range map[string]bool{`"a"`: true, `"b", "a"`: true, `W/"a"`: true, `*`: true, `"b"`: false, ``: false, `a`: false, `"a-br"`: false} {
		if assets.Has(list, `"a"`) != want {
			t.Errorf("%s", list)
		}
	}
}
