package assets

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/andybalholm/brotli"
)

// File is something that is sent as it is; it never changes.
type File struct {
	Kind string // its Content-Type

	sum   string
	plain []byte
	codes []coding // the best first
}

// coding is the file in one of HTTP's codings, made when somebody asks for it first.
type coding struct {
	name string
	body func() []byte
}

// NewFile is a file with a content and its type.
func NewFile(content []byte, kind string) *File {
	sum := sha256.Sum256(content)
	f := &File{Kind: kind, sum: hex.EncodeToString(sum[:8]), plain: content}
	if len(content) < smallest || !(strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "+xml") || strings.HasSuffix(kind, "/yaml")) {
		return f
	}
	f.codes = []coding{
		{"br", sync.OnceValue(func() []byte {
			return packed(content, func(w io.Writer) io.WriteCloser { return brotli.NewWriterLevel(w, brotliLevel) })
		})},
		{"gzip", sync.OnceValue(func() []byte {
			return packed(content, func(w io.Writer) io.WriteCloser {
				z, _ := gzip.NewWriterLevel(w, gzip.BestCompression) // the level is valid
				return z
			})
		})},
	}
	return f
}

const (
	smallest    = 512 // bytes; what is smaller fits into a packet as it is
	brotliLevel = 10  // once for each file: 0.3 s for 100 KB; 9 is quick and 5 % larger, 11 saves 2 % more and takes twice as long
)

func packed(content []byte, to func(io.Writer) io.WriteCloser) []byte {
	var out bytes.Buffer
	w := to(&out)
	_, _ = w.Write(content) // into a buffer, which does not fail
	_ = w.Close()
	return out.Bytes()
}

// Body is the content as one who accepts these codings is sent it: its bytes, the name
// of its coding ("" for none) and its entity tag.
func (f *File) Body(accept string) (body []byte, coding, tag string) {
	for _, c := range f.codes {
		if accepts(accept, c.name) {
			return c.body(), c.name, `"` + f.sum + "-" + c.name + `"`
		}
	}
	return f.plain, "", `"` + f.sum + `"`
}

// Varies reports whether the bytes depend on who asks.
func (f *File) Varies() bool { return len(f.codes) > 0 }

// Has reports whether the list of If-None-Match names this tag.
func Has(list, tag string) bool {
	return slices.ContainsFunc(strings.Split(list, ","), func(have string) bool {
		have = strings.TrimSpace(have)
		return have == "*" || strings.TrimPrefix(have, "W/") == tag
	})
}

// accepts reports whether a list of Accept-Encoding takes a coding; one that is not
// named is not sent.
func accepts(list, coding string) bool {
	for part := range strings.SplitSeq(list, ",") {
		name, params, _ := strings.Cut(part, ";")
		if !strings.EqualFold(strings.TrimSpace(name), coding) {
			continue
		}
		weight, ok := strings.CutPrefix(strings.ReplaceAll(params, " ", ""), "q=")
		if !ok {
			return true
		}
		q, err := strconv.ParseFloat(weight, 64)
		return err == nil && q > 0
	}
	return false
}
