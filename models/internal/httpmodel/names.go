package httpmodel

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"parley/conversation"
)

// CallID is the id under which a call and its result are given back: the
// provider's own, or one made from it where another provider's would be refused.
func CallID(id string, limit int) string {
	if ValidName(id, limit) {
		return id
	}
	return "call_" + digest(id)
}

// ValidName is true for a name that every provider takes, if it is not too long.
func ValidName(name string, limit int) bool {
	return name != "" && len(name) <= limit && !strings.ContainsFunc(name, notNameChar)
}

func notNameChar(c rune) bool {
	return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-')
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:12])
}

// Names translates tool names, which may be anything, to what providers take.
type Names struct{ original map[string]string }

// maxToolName is the longest name of a tool that providers take.
const maxToolName = 64

// NewNames knows the tools of the request.
func NewNames(r *conversation.Request) *Names {
	n := &Names{}
	for i := range r.Tools {
		n.ToProvider(r.Tools[i].Name)
	}
	return n
}

// ToProvider is the name that the provider is told.
func (n *Names) ToProvider(name string) string {
	if ValidName(name, maxToolName) {
		return name
	}
	plain := strings.Map(func(c rune) rune {
		if notNameChar(c) {
			return '_'
		}
		return c
	}, name)
	// The digest keeps two names apart that differ only in what was replaced.
	plain = plain[:min(len(plain), maxToolName-9)] + "_" + digest(name)[:8]
	if n.original == nil {
		n.original = map[string]string{}
	}
	n.original[plain] = name
	return plain
}

// FromProvider is the name of the tool that the provider has called.
func (n *Names) FromProvider(name string) string {
	if original, changed := n.original[name]; changed {
		return original
	}
	return name
}
