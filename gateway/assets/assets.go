package assets

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"mime"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Page is the embedded page, read once: it is small and never changes.
type Page struct {
	files   map[string]*File
	version string
}

// New reads the page's files; without any there is no page.
func New(files fs.FS) (*Page, error) {
	p := &Page{files: make(map[string]*File)}
	if files == nil {
		return p, nil
	}
	texts := make(map[string][]byte)
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		texts[strings.TrimPrefix(name, "assets/")], err = fs.ReadFile(files, name)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the page: %w", err)
	}
	index, ok := texts["index.html"]
	if !ok {
		return nil, errors.New("the page has no index.html")
	}
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		_, _ = fmt.Fprintf(sum, "%s %d\n", name, len(texts[name])) // a hash does not fail
		_, _ = sum.Write(texts[name])
	}
	p.version = hex.EncodeToString(sum.Sum(nil)[:versionBytes])
	texts["index.html"] = p.placed(index, texts)
	for name, text := range texts {
		p.files[name] = NewFile(text, kindOf(name))
	}
	return p, nil
}

const versionBytes = 8

// Empty reports whether there is no page.
func (p *Page) Empty() bool { return len(p.files) == 0 }

// Index is the page itself.
func (p *Page) Index() *File { return p.files["index.html"] }

var versioned = regexp.MustCompile(fmt.Sprintf(`^[0-9a-f]{%d}/`, 2*versionBytes))

// Find gives the file at a place below /assets/, nil if there is none. The content of a
// fixed place never changes. A page of another version, from before the server was
// exchanged or of another node, is given what there is now.
func (p *Page) Find(place string) (f *File, fixed bool) {
	at := versioned.FindString(place)
	return p.files[strings.TrimPrefix(place, at)], at == p.version+"/"
}

var (
	named   = regexp.MustCompile(`((?:src|href)=")/assets/`)
	script  = regexp.MustCompile(`<script type="module" src="/assets/([^"]+)"`)
	imports = regexp.MustCompile(`(?m)(?:^|;)import\s*(?:[^;'"()]*?\bfrom\s*)?["'](\./[^'"]+)["']`) // also as a bundler writes it
)

// placed is index.html with the places of this version, and with the modules that its
// scripts import.
func (p *Page) placed(index []byte, texts map[string][]byte) []byte {
	var modules []string
	for _, m := range script.FindAllSubmatch(index, -1) {
		modules = append(modules, string(m[1]))
	}
	for i := 0; i < len(modules); i++ {
		for _, m := range imports.FindAllSubmatch(texts[modules[i]], -1) {
			if name := path.Join(path.Dir(modules[i]), string(m[1])); !slices.Contains(modules, name) {
				modules = append(modules, name)
			}
		}
	}
	var links bytes.Buffer
	for _, name := range modules {
		_, _ = fmt.Fprintf(&links, "<link rel=\"modulepreload\" href=\"/assets/%s\">\n", name) // a buffer does not fail
	}
	// Behind what the first paint needs.
	index = bytes.Replace(index, []byte("</head>"), append(links.Bytes(), "</head>"...), 1)
	return named.ReplaceAll(index, []byte("${1}/assets/"+p.version+"/"))
}

// kinds are not left to the machine's table of types.
var kinds = map[string]string{
	".js":   "text/javascript; charset=utf-8",
	".mjs":  "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".html": "text/html; charset=utf-8",
	".txt":  "text/plain; charset=utf-8",
	".svg":  "image/svg+xml",
}

func kindOf(name string) string {
	ext := path.Ext(name)
	return cmp.Or(kinds[ext], mime.TypeByExtension(ext), "application/octet-stream")
}
