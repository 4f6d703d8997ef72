package attach

import (
	"bytes"
	"mime"
	"strings"
	"unicode/utf8"

	"parley/conversation"
)

// images are the pictures that are taken, by how they begin.
var images = []struct {
	kind  string
	begin func(b []byte) bool
}{
	{"image/png", func(b []byte) bool { return bytes.HasPrefix(b, []byte("\x89PNG\r\n\x1a\n")) }},
	{"image/jpeg", func(b []byte) bool { return bytes.HasPrefix(b, []byte("\xff\xd8\xff")) }},
	{"image/gif", func(b []byte) bool {
		return bytes.HasPrefix(b, []byte("GIF87a")) || bytes.HasPrefix(b, []byte("GIF89a"))
	}},
	{"image/webp", func(b []byte) bool {
		return len(b) >= 12 && string(b[:4]) == "RIFF" && string(b[8:12]) == "WEBP"
	}},
}

// typeOf is the type of a file: the one that was declared, if its bytes agree.
func typeOf(declared string, body []byte) (string, error) {
	kind, params, err := mime.ParseMediaType(declared)
	if err != nil {
		return "", conversation.Errorf(conversation.UnsupportedMedia, "Content-Type must say what the file is")
	}
	for _, i := range images {
		if i.begin(body) {
			if i.kind != kind {
				return "", conversation.Errorf(conversation.UnsupportedMedia, "the file is declared as %s, but it is %s", shown(kind), i.kind)
			}
			return kind, nil
		}
	}
	main, sub, _ := strings.Cut(kind, "/")
	switch {
	case main == "image":
		return "", conversation.Errorf(conversation.UnsupportedMedia, "the file is declared as %s, but it is no picture that is taken: png, jpeg, gif and webp are", shown(kind))
	case main != "text" && kind != "application/json" || sub == "" || len(kind) > 64:
		return "", conversation.Errorf(conversation.UnsupportedMedia, "files of the type %s are not taken: pictures (png, jpeg, gif, webp) and texts are", shown(kind))
	case params["charset"] != "" && !strings.EqualFold(params["charset"], "utf-8") && !strings.EqualFold(params["charset"], "us-ascii"):
		return "", conversation.Errorf(conversation.UnsupportedMedia, "a text must be UTF-8")
	case !utf8.Valid(body) || bytes.IndexByte(body, 0) >= 0:
		return "", conversation.Errorf(conversation.UnsupportedMedia, "the file is declared as %s, but it is not UTF-8 text", shown(kind))
	}
	return kind, nil
}

// shown is a declared type for a sentence.
func shown(kind string) string { return conversation.Excerpt(kind, 64) }
