package protocol

import (
	"parley/conversation"
	"parley/conversation/listing"
)

// ReadArchived says which rows a list shows by the user's marks: without archived ones, unless
// the request asks for them by "only" or "all".
func ReadArchived(word string) (shows func(listing.Marks) bool, err error) {
	switch word {
	case "":
		return func(m listing.Marks) bool { return !m.Archived() }, nil
	case "only":
		return listing.Marks.Archived, nil
	case "all":
		return func(listing.Marks) bool { return true }, nil
	}
	return nil, conversation.Errorf(conversation.BadRequest, "archived must be only or all")
}

// Mark reads a mark to set or to take away; null is neither.
func (m Member) Mark(mark listing.Marks, into *listing.Marking) error {
	var on *bool
	if err := m.BoolPointer(&on); err != nil || on == nil {
		return err
	}
	*into = into.With(mark, *on)
	return nil
}
