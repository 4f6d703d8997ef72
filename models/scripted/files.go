package scripted

import (
	"fmt"
	"strings"

	"parley/conversation/attached"
)

// got is what is said of a message with files: which they are.
func got(files []attached.File) string {
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = fmt.Sprintf("%s (%s, %s)", f.Name, f.Type, attached.Size(f.Size))
	}
	noun := "files"
	if len(files) == 1 {
		noun = "file"
	}
	return fmt.Sprintf("I got %d %s: %s.", len(files), noun, strings.Join(names, ", "))
}
