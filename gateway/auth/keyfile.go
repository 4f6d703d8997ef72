package auth

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
)

// KeysFile is the name of the file of keys in the data directory.
const KeysFile = "keys.toml"

// keysDocument is the file of keys.
type keysDocument struct {
	Keys []Key `toml:"key"`
}

// fileState tells one content of a file from another without reading it.
type fileState struct {
	size    int64
	changed time.Time
}

func stateOf(path string) fileState {
	info, err := os.Stat(path)
	if err != nil {
		return fileState{}
	}
	return fileState{size: info.Size(), changed: info.ModTime()}
}

// readKeys reads the file of keys; one that is missing has none.
func readKeys(path string) (fileState, []Key, error) {
	if path == "" {
		return fileState{}, nil, nil
	}
	state := stateOf(path) // before: what changes meanwhile is noticed the next time
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return state, nil, nil
	}
	if err != nil {
		return state, nil, fmt.Errorf("the file of keys: %w", err)
	}
	var d keysDocument
	if err := toml.Unmarshal(text, &d); err != nil {
		return state, nil, fmt.Errorf("the file of keys %s cannot be read: %w", path, err)
	}
	return state, d.Keys, nil
}

// List is the keys of the file at path.
func List(path string) ([]Key, error) {
	_, keys, err := readKeys(path)
	return keys, err
}

// Add puts a key into the file at path, which is made if it is missing.
func Add(path string, key Key) error {
	if err := key.Check(); err != nil {
		return err
	}
	return change(path, func(keys []Key) ([]Key, error) { return append(keys, key), nil })
}

// Revoke takes keys out of the file at path: the one of this id, or all of a user.
func Revoke(path string, goes func(Key) bool) (gone []Key, err error) {
	err = change(path, func(keys []Key) (left []Key, err error) {
		for _, k := range keys {
			if goes(k) {
				gone = append(gone, k)
			} else {
				left = append(left, k)
			}
		}
		return left, nil
	})
	return gone, err
}

// Carry takes the keys of one data directory into another one that has none: after a
// restore the same people sign in.
func Carry(from, to string) (carried bool, err error) {
	to = filepath.Join(to, KeysFile)
	if _, err := os.Stat(to); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	text, err := os.ReadFile(filepath.Join(from, KeysFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, replace(to, string(text))
}

// change writes the file anew, in one step: a server that reads it meanwhile sees the one
// or the other. Two that change it at once wait for each other.
func change(path string, f func([]Key) ([]Key, error)) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(filepath.Dir(path), ".keys.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := lockFile(lock); err != nil {
		return fmt.Errorf("another program changes %s: %w", path, err)
	}
	_, keys, err := readKeys(path)
	if err != nil {
		return err
	}
	if keys, err = f(slices.Clone(keys)); err != nil {
		return err
	}
	text, err := toml.Marshal(keysDocument{keys})
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("# The keys that clients sign in with, as \"parley key\" writes them: of each only its SHA-256.\n" +
		"# A running server notices a change within seconds. Taking a key out ends what it has open.\n\n")
	b.Write(text)
	return replace(path, b.String())
}

// replace writes a file so that its old or its new content is there after a crash.
func replace(path, text string) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".keys-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.WriteString(text) // CreateTemp makes it 0600
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
