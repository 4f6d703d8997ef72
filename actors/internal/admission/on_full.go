package admission

import (
	"fmt"
	"slices"
)

// OnFull says what becomes of a message that needs a task when every slot is
// taken (admission.on_full).
type OnFull uint8

// The choices.
const (
	OnFullWait   OnFull = iota // it is accepted, and its task stays QUEUED
	OnFullReject               // it is refused before anything is stored
)

var onFullNames = [...]string{OnFullWait: "wait", OnFullReject: "reject"}

// String is the choice as the configuration writes it.
func (o OnFull) String() string {
	if int(o) < len(onFullNames) {
		return onFullNames[o]
	}
	return fmt.Sprintf("OnFull(%d)", uint8(o))
}

// Want says what a command wants that may start a task; refuses = it would be refused when
// full, whatever o says.
func (o OnFull) Want(mayStart, refuses bool) Want {
	switch {
	case !mayStart:
		return WantNothing
	case refuses || o == OnFullReject:
		return WantPlace
	default:
		return WantSlot
	}
}

// UnmarshalText reads what String writes.
func (o *OnFull) UnmarshalText(text []byte) error {
	i := slices.Index(onFullNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("%q is no choice of admission.on_full", text)
	}
	*o = OnFull(i)
	return nil
}
