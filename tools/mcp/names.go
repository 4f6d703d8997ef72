package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxName is how long the providers of models let a tool's name be.
const maxName = 64

// toolName is what models call a tool: only letters that the providers take. A
// name that is too long keeps its head, and its whole is told by a hash, so that
// it is the same on every start.
func toolName(prefix, tool string) string {
	name := prefix + strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, tool)
	if len(name) > maxName {
		return marked(name, prefix+tool)
	}
	return name
}

// marked tells a name from others that would be the same.
func marked(name, whole string) string {
	sum := sha256.Sum256([]byte(whole))
	mark := "_" + hex.EncodeToString(sum[:4])
	return name[:min(len(name), maxName-len(mark))] + mark
}
