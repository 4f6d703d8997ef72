package web

import (
	"embed"
	"errors"
	"io/fs"
)

//go:embed bundle page/index.html page/icon.svg page/vendor/licences.txt
var page embed.FS

// Files holds index.html and, beside it, everything that it loads. index.html
// belongs at /, the other files under /assets/, where it looks for them.
var Files fs.FS = beside{folder("page"), folder("bundle")}

// beside shows the files of several file systems as those of one; no name is in
// two of them.
type beside []fs.FS

// Open opens the file of the first one that has it.
func (b beside) Open(name string) (fs.File, error) {
	for _, files := range b[:len(b)-1] {
		f, err := files.Open(name)
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	return b[len(b)-1].Open(name)
}

// ReadDir lists what all of them have there.
func (b beside) ReadDir(name string) ([]fs.DirEntry, error) {
	var all []fs.DirEntry
	for _, files := range b {
		entries, err := fs.ReadDir(files, name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		all = append(all, entries...)
	}
	if all == nil {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrNotExist}
	}
	return all, nil
}

// folder strips the folder's name. The folder is part of the binary, so a failure
// here is a mistake in this file and not something that a caller could handle.
func folder(name string) fs.FS {
	files, err := fs.Sub(page, name)
	if err != nil {
		panic(err)
	}
	return files
}
