package rest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"path"
	"strings"
)

// pagePolicy lets the page load its own files and talk to its own server, nothing else.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// page is the embedded page, read once: it is small and never changes.
type page struct{ files map[string]pageFile }

type pageFile struct {
	data []byte
	kind string // Content-Type
	tag  string // ETag
}

func newPageFile(data []byte, kind string) pageFile {
	sum := sha256.Sum256(data)
	return pageFile{data: data, kind: kind, tag: `"` + hex.EncodeToString(sum[:8]) + `"`}
}

// NewPage reads the page's files. index.html is the page itself, everything else
// is found below /assets/.
func NewPage(files fs.FS) (*page, error) {
	p := &page{files: make(map[string]pageFile)}
	if files == nil {
		return p, nil
	}
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		kind := mime.TypeByExtension(path.Ext(name))
		switch path.Ext(name) { // not left to the machine's table of types
		case ".js", ".mjs":
			kind = "text/javascript; charset=utf-8"
		case ".css":
			kind = "text/css; charset=utf-8"
		case ".html":
			kind = "text/html; charset=utf-8"
		case ".svg":
			kind = "image/svg+xml"
		case "":
			kind = "application/octet-stream"
		}
		p.files[strings.TrimPrefix(name, "assets/")] = newPageFile(data, kind)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the page: %w", err)
	}
	if _, ok := p.files["index.html"]; !ok {
		return nil, errors.New("the page has no index.html")
	}
	return p, nil
}
