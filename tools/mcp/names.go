package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxName is the longest name of a tool that the providers of models accept.
const maxName = 64

// toolName makes the name by which models call a tool: only characters that the
// providers accept. A name that is too long is cut and gets a hash of the whole
// name, so that it is the same on every start.
func toolName(prefix, tool string) string {
	name := prefix + strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, tool)
	if len(name) > maxName {
		return withHash(name, prefix+tool)
	}
	return name
}

// withHash ends a name with a hash of whole, so that it differs from other names.
func withHash(name, whole string) string {
	sum := sha256.Sum256([]byte(whole))
	mark := "_" + hex.EncodeToString(sum[:4])
	return name[:min(len(name), maxName-len(mark))] + mark
}
