package backup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/conversation"
	"parley/persistence/pebble/internal/inspect"
	"parley/persistence/pebble/internal/verify"
)

// InfoFile makes a directory a backup. A server does not start on one.
const InfoFile = "BACKUP.json"

// infoVersion is the version of what stands in InfoFile.
const infoVersion = 1

// Info is what a backup says of itself.
type Info struct {
	Version int                `json:"backup"` // of this file
	Log     conversation.LogID `json:"log"`
	Layout  uint32             `json:"layout"`
	Format  uint64             `json:"format"`  // of Pebble's files
	Program string             `json:"program"` // the version of the program that made it
	Time    time.Time          `json:"time"`
	Bytes   int64              `json:"bytes"` // of all its files, those that are shared with the store included
	Counts  verify.Counts      `json:"counts"`
	Note    string             `json:"note"` // for the person who finds it
}

// note tells the person who finds a backup what to do with it.
const note = "This directory is a backup of a parley store. No server starts on it: parley restore makes a data directory of it."

// ReadInfo reads the InfoFile of a directory; nil = there is none, so it is no backup.
func ReadInfo(fs vfs.FS, dir string) (*Info, error) {
	path := fs.PathJoin(dir, InfoFile)
	f, err := fs.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if errors.Is(err, syscall.ENOTDIR) { // there is a sentence for it
		return nil, inspect.Explain(dir, err)
	}
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	info := &Info{}
	if err := json.Unmarshal(data, info); err != nil || info.Version == 0 {
		return nil, fmt.Errorf("%s cannot be read: %w", path, errors.Join(err, errNoInfo))
	}
	if info.Version > infoVersion {
		return nil, fmt.Errorf("%s: %w (%d > %d)", path, conversation.ErrTooNew, info.Version, infoVersion)
	}
	return info, nil
}

var errNoInfo = errors.New("it is not what a backup says of itself")

// WriteInfo makes dir a backup, durably. Version and Note are filled in.
func WriteInfo(fs vfs.FS, dir string, info Info) error {
	info.Version, info.Note = infoVersion, note
	data, err := json.MarshalIndent(info, "", "  ")
	if err != nil {
		return err
	}
	return WriteFile(fs, dir, InfoFile, append(data, '\n'))
}

// WriteFile makes a file in dir, durably.
func WriteFile(fs vfs.FS, dir, name string, data []byte) error {
	f, err := fs.Create(fs.PathJoin(dir, name), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return SyncDir(fs, dir)
}

// SyncDir makes the names in dir durable.
func SyncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// SyncParent makes the name of path durable.
func SyncParent(fs vfs.FS, path string) error { return SyncDir(fs, fs.PathDir(path)) }
