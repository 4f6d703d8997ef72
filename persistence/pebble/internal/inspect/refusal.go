package inspect

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	crdb "github.com/cockroachdb/errors"
	"github.com/cockroachdb/pebble/v2"

	"parley/conversation"
	"parley/persistence/pebble/internal/ondisk"
)

// OpenReason says why a store could not be opened.
type OpenReason uint8

// The reasons.
const (
	OpenFailed     OpenReason = iota // something else
	OpenInUse                        // by another process, or twice by this one
	OpenPermission                   // the process may not write there
	OpenTooNew                       // written by a newer program; wraps conversation.ErrTooNew
	OpenCorrupt                      // damaged
	OpenForeign                      // holds something else
	OpenAbsent                       // there is none, and none was to be made
	OpenBackup                       // a backup, or what a restore has left unfinished
)

// OpenError is why Open failed: one sentence for the person at the terminal, the
// reason for programs.
type OpenError struct {
	Dir      string
	Reason   OpenReason
	Sentence string
	Err      error // the cause, for the log
}

func (e *OpenError) Error() string { return e.Sentence }
func (e *OpenError) Unwrap() error { return e.Err }

// InUse is the refusal of a directory that another process has; by names it.
func InUse(dir, by string, err error) error {
	return &OpenError{Dir: dir, Reason: OpenInUse, Err: err, Sentence: fmt.Sprintf(
		"data directory %s is in use by another process%s", dir, by)}
}

// Absent is the refusal of a directory without a store, where none is to be made.
func Absent(dir string) error {
	return &OpenError{Dir: dir, Reason: OpenAbsent, Sentence: fmt.Sprintf("there is no parley store in %s", dir)}
}

// Foreign is the refusal of a directory that holds something else.
func Foreign(dir string) error {
	return &OpenError{Dir: dir, Reason: OpenForeign, Sentence: fmt.Sprintf(
		"%s is not a parley data directory: it holds other files; name an empty or a new one", dir)}
}

// TooNew is the refusal of what a newer program wrote.
func TooNew(dir, what string, found, known uint64) error {
	return &OpenError{Dir: dir, Reason: OpenTooNew, Err: conversation.ErrTooNew, Sentence: fmt.Sprintf(
		"%s was written by a newer version (%s %d > %d)", dir, what, found, known)}
}

// Explain puts an error of the file system or of Pebble into a sentence.
func Explain(dir string, err error) error {
	var already *OpenError
	if errors.As(err, &already) {
		return err
	}
	e := &OpenError{Dir: dir, Err: err}
	var damage *ondisk.Damage
	switch {
	case errors.Is(err, os.ErrPermission):
		e.Reason = OpenPermission
		e.Sentence = fmt.Sprintf("cannot write to %s: permission denied, running as uid %d", dir, os.Getuid())
	case errors.Is(err, syscall.ENOTDIR) && fileAt(dir) != "":
		e.Sentence = fileAt(dir) + " is a file, not a directory"
	case errors.As(err, &damage):
		e.Reason = OpenCorrupt
		e.Sentence = damageSentence(dir, damage.Error())
	case crdb.Is(err, pebble.ErrCorruption): // a mark, which the standard library does not see
		e.Reason = OpenCorrupt
		what := oneLine(err)
		if where := strings.Join(strings.Fields(crdb.FlattenDetails(err)), " "); where != "" {
			what += " (" + where + ")"
		}
		e.Sentence = damageSentence(dir, what)
	default:
		e.Sentence = fmt.Sprintf("cannot open %s: %s", dir, oneLine(err))
	}
	return e
}

// fileAt is what stands in the way of a directory: the file at its place, or at that of one it
// should lie in; "" = none.
func fileAt(dir string) string {
	for {
		info, err := os.Stat(dir)
		switch {
		case err == nil && !info.IsDir():
			return dir
		case err == nil, filepath.Dir(dir) == dir:
			return ""
		}
		dir = filepath.Dir(dir)
	}
}

func damageSentence(dir, what string) string {
	return fmt.Sprintf("%s is damaged: %s; nothing was changed: bring back a backup (parley restore SRC --data %[1]s --replace), or copy the directory aside before trying anything else", dir, what)
}

// oneLine is an error's text without its line breaks, and without what stands there
// for details that have been taken out.
func oneLine(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	return strings.NewReplacer("; <corruption detail carrier>", "", " <corruption detail carrier>", "").Replace(text)
}

// Unsound marks what Pebble says of tables that are missing or have another size
// than the manifest says: it gives no kind to these errors.
func Unsound(err error) error {
	text := err.Error()
	for _, phrase := range []string{"object size mismatch", "unknown to the objstorage provider", "could not open manifest", "inconsistent"} {
		if strings.Contains(text, phrase) {
			return &ondisk.Damage{File: "a table", What: "is missing or has the wrong size (" + oneLine(err) + ")"}
		}
	}
	return err
}
