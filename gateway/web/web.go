package web

import (
	"embed"
	"io/fs"
)

//go:embed page
var page embed.FS

// Files holds index.html and, beside it, everything that it loads. index.html
// belongs at /, the other files under /assets/, where it looks for them.
var Files fs.FS = root()

// root strips the folder's name. The folder is part of the binary, so a failure
// here is a mistake in this file and not something that a caller could handle.
func root() fs.FS {
	files, err := fs.Sub(page, "page")
	if err != nil {
		panic(err)
	}
	return files
}
