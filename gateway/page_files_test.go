package gateway_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"parley/gateway"
	"parley/gateway/web"
)

// The page names places that never change; a browser keeps what is there, and asks for
// the page alone again.
func TestPageFilesAreKept(t *testing.T) {
	r := start(t, func(_ *gateway.Config, d *gateway.Deps) { d.Page = web.Files })
	page := r.call("GET", "/", "").want(t, 200)
	places := regexp.MustCompile(`(?:src|href)="(/assets/[^"]+)"`).FindAllStringSubmatch(string(page.body), -1)
	if len(places) < 4 || page.header.Get("Cache-Control") != "no-cache" {
		t.Fatalf("%d places, %v", len(places), page.header)
	}
	r.call("GET", "/", "", "If-None-Match", page.header.Get("Etag")).want(t, 304)
	version := regexp.MustCompile(`^/assets/[0-9a-f]{16}/`)
	for _, m := range places {
		a := r.call("GET", m[1], "").want(t, 200)
		if !version.MatchString(m[1]) || a.header.Get("Cache-Control") != "public, max-age=31536000, immutable" {
			t.Errorf("%s: %v", m[1], a.header)
		}
		now := r.call("GET", version.ReplaceAllString(m[1], "/assets/"), "").want(t, 200)
		before := r.call("GET", version.ReplaceAllString(m[1], "/assets/0123456789abcdef/"), "").want(t, 200)
		if !bytes.Equal(now.body, a.body) || !bytes.Equal(before.body, a.body) || now.header.Get("Cache-Control") != "no-cache" || before.header.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: another file at another place, or one that is kept", m[1])
		}
	}
}

// One file, in every coding that HTTP has for it: the same bytes, a tag for each, and the
// same headers without a body for HEAD.
func TestPageFilesAreCompressed(t *testing.T) {
	content := strings.Repeat("export const words = 'words';\n", 100)
	r := start(t, func(_ *gateway.Config, d *gateway.Deps) {
		d.Page = fstest.MapFS{"index.html": {Data: []byte("<!doctype html>")}, "app.js": {Data: []byte(content)}}
	})
	tags := make(map[string]bool)
	for _, coding := range []string{"", "gzip", "br"} {
		accept := coding
		if accept == "" {
			accept = "identity" // else Go asks for gzip by itself
		}
		a := r.call("GET", "/assets/app.js", "", "Accept-Encoding", accept).want(t, 200)
		h := a.header
		if h.Get("Content-Encoding") != coding || !strings.Contains(h.Get("Vary"), "Accept-Encoding") || h.Get("Content-Type") != "text/javascript; charset=utf-8" || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%q: %v", coding, h)
		}
		tags[h.Get("Etag")] = true
		switch {
		case coding == "gzip":
			z, err := gzip.NewReader(bytes.NewReader(a.body))
			if err != nil {
				t.Fatal(err)
			}
			if text, err := io.ReadAll(z); err != nil || string(text) != content {
				t.Errorf("other bytes (%v)", err)
			}
		case coding == "" && string(a.body) != content:
			t.Error("other bytes")
		}
		if coding != "" && len(a.body) > len(content)/10 {
			t.Errorf("%s: %d bytes", coding, len(a.body))
		}
		head := r.call("HEAD", "/assets/app.js", "", "Accept-Encoding", accept).want(t, 200)
		for _, name := range []string{"Content-Encoding", "Etag", "Content-Type", "Content-Length", "Cache-Control", "Vary"} {
			if len(head.body) != 0 || head.header.Get(name) != h.Get(name) {
				t.Errorf("HEAD %q: %s is %q, not %q", coding, name, head.header.Get(name), h.Get(name))
			}
		}
		r.call("GET", "/assets/app.js", "", "Accept-Encoding", accept, "If-None-Match", `"other", W/`+h.Get("Etag")).want(t, 304)
		whole := r.call("GET", "/assets/app.js", "", "Accept-Encoding", accept, "Range", "bytes=0-9").want(t, http.StatusOK)
		if !bytes.Equal(whole.body, a.body) {
			t.Errorf("%q: a range is %d bytes", coding, len(whole.body))
		}
		r.call("GET", "/openapi.yaml", "", "Accept-Encoding", accept).want(t, 200)
	}
	if len(tags) != 3 {
		t.Errorf("tags: %v", tags)
	}
}
