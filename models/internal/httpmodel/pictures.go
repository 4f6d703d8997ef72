package httpmodel

import (
	"encoding/base64"

	"parley/conversation"
)

// Base64 is a picture's bytes as JSON can hold them.
func Base64(p *conversation.Picture) string { return base64.StdEncoding.EncodeToString(p.Body) }

// DataURL is a picture as an address that holds all of it.
func DataURL(p *conversation.Picture) string { return "data:" + p.Type + ";base64," + Base64(p) }
