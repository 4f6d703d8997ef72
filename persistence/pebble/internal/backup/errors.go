package backup

import (
	"errors"
	"fmt"
	"strings"
)

// CopyReason says why a backup or a restore was refused or failed.
type CopyReason uint8

// The reasons.
const (
	CopyFailed   CopyReason = iota // something else
	CopyRefused                    // not from there, or not to there
	CopyOccupied                   // something stands where the copy is to go
	CopyBusy                       // another one is being made
	CopyFull                       // no room for it
)

// CopyError is why a backup or a restore was not made: one sentence for the person
// who asked for it, the reason for programs.
type CopyError struct {
	Reason   CopyReason
	Sentence string
	Err      error // the cause, for the log
}

func (e *CopyError) Error() string { return e.Sentence }
func (e *CopyError) Unwrap() error { return e.Err }

func refuse(reason CopyReason, format string, args ...any) error {
	return &CopyError{Reason: reason, Sentence: fmt.Sprintf(format, args...)}
}

// failed puts an error into a sentence, unless it has one.
func (o Opener) failed(err error, format string, args ...any) error {
	if err == nil || errors.As(err, new(*CopyError)) || o.Told(err) {
		return err
	}
	return &CopyError{Sentence: fmt.Sprintf(format, args...) + ": " + strings.Join(strings.Fields(err.Error()), " "), Err: err}
}
