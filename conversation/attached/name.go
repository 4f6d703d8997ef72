package attached

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxName bounds a file's name, in bytes.
const MaxName = 128

// Name makes a file's name safe to show, to save and to tell a model: no folders, no
// brackets, no quotes, nothing that one does not see, at most MaxName bytes. Of a name with
// nothing left it is "file".
func Name(name string) string {
	name = strings.ToValidUTF8(name, "")
	if i := strings.LastIndexAny(name, `/\`); i >= 0 {
		name = name[i+1:]
	}
	name = strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return r
		case !unicode.IsGraphic(r), unicode.IsSpace(r), strings.ContainsRune("[]\"'<>|:*?;,%`", r):
			return -1
		}
		return r
	}, name)
	name = strings.Trim(name, ". ")
	for len(name) > MaxName {
		_, n := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-n]
	}
	if name == "" {
		return "file"
	}
	return name
}
