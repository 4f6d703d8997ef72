package httpmodel

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"parley/conversation"
)

// CallID returns the id under which a call and its result are given back: the
// provider's own, or one made from it where another provider's would be refused.
func CallID(id string, limit int) string {
	if ValidName(id, limit) {
		return id
	}
	return "call_" + digest(id)
}

// shortID is the length of ids of servers that take one length only.
const shortID = 9

// ShortCallID is CallID for servers that take nine letters and digits only.
func ShortCallID(id string) string {
	if len(id) == shortID && ValidName(id, shortID) && !strings.ContainsAny(id, "_-") {
		return id
	}
	return digest(id)[:shortID]
}

// ValidName reports whether every provider accepts a name of at most limit bytes.
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

// Names translates tool names, which may hold any character, into names that providers
// accept, and back.
type Names struct{ original map[string]string }

// maxToolName is the longest name of a tool that providers take.
const maxToolName = 64

// NewNames prepares the names of the request's tools.
func NewNames(r *conversation.Request) *Names {
	n := &Names{}
	for i := range r.Tools {
		n.ToProvider(r.Tools[i].Name)
	}
	return n
}

// ToProvider returns the name under which the provider knows a tool.
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
	// The digest tells names apart that differ only in replaced characters.
	plain = plain[:min(len(plain), maxToolName-9)] + "_" + digest(name)[:8]
	if n.original == nil {
		n.original = map[string]string{}
	}
	n.original[plain] = name
	return plain
}

// FromProvider returns the name of the tool that the provider has called.
func (n *Names) FromProvider(name string) string {
	if original, changed := n.original[name]; changed {
		return original
	}
	return name
}
