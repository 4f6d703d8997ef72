package attach

import (
	"mime"
	"strings"
)

// Upload is a file as its request brings it.
type Upload struct {
	Name, Type, Encoding string
	Body                 []byte
}

// IsUpload is true for a request whose body is a file.
func IsUpload(method, path string) bool {
	return method == "POST" && strings.HasPrefix(path, "/api/sessions/") && strings.HasSuffix(path, "/blobs")
}

// Head sets the headers of an answer that is a file. Nothing in it may run, whatever it is.
func Head(o Open, set func(name, value string)) {
	how, kind := "attachment", o.Type
	if o.Image() {
		how = "inline"
	} else {
		kind = mime.FormatMediaType(kind, map[string]string{"charset": "utf-8"})
	}
	set("Content-Type", kind)
	set("Content-Disposition", mime.FormatMediaType(how, map[string]string{"filename": o.Name}))
	set("Content-Security-Policy", "default-src 'none'; sandbox; frame-ancestors 'none'")
	set("Cache-Control", "private, max-age=31536000, immutable")
	set("Etag", `"`+string(o.Hash)+`"`)
}
