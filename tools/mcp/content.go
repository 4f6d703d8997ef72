package mcp

import (
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// maxError bounds an error's text, in bytes.
	maxError = 2 << 10
	// leastResult is the smallest bound of a result: its mark must fit.
	leastResult = 128
	// noContent is the text of a result that has none.
	noContent = "(no content)"
)

// resultText makes the text of a result that a model is shown: texts as they are,
// other content by its name.
func resultText(r *sdk.CallToolResult) string {
	var parts []string
	for _, content := range r.Content {
		if part := contentText(content); strings.TrimSpace(part) != "" {
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 && r.StructuredContent != nil {
		if raw, err := json.Marshal(r.StructuredContent); err == nil {
			parts = append(parts, string(raw))
		}
	}
	if len(parts) == 0 {
		return noContent
	}
	return strings.Join(parts, "\n")
}

func contentText(content sdk.Content) string {
	switch c := content.(type) {
	case *sdk.TextContent:
		return c.Text
	case *sdk.ImageContent:
		return named(c.MIMEType, "image", len(c.Data))
	case *sdk.AudioContent:
		return named(c.MIMEType, "audio", len(c.Data))
	case *sdk.ResourceLink:
		name := c.Title
		if name == "" {
			name = c.Name
		}
		return fmt.Sprintf("[%s: %s]", orElse(name, "resource"), c.URI)
	case *sdk.EmbeddedResource:
		switch {
		case c.Resource == nil:
			return "[resource]"
		case c.Resource.Blob != nil:
			return fmt.Sprintf("[%s, %s, %d bytes]", c.Resource.URI, orElse(c.Resource.MIMEType, "data"), len(c.Resource.Blob))
		}
		return c.Resource.Text
	default:
		return "[content of an unknown type]"
	}
}

func named(mime, kind string, size int) string {
	return fmt.Sprintf("[%s, %d bytes]", orElse(mime, kind), size)
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
