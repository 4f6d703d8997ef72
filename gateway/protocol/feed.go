package protocol

import "parley/conversation"

// What happens in the chats of platforms is one feed for each tenant. Its entries have numbers
// of their own, and belong to no session that a client follows.

// Watching is the data of watch_chats.
type Watching struct {
	Since *uint64 // the last entry that the client has; nil = what comes from now on
}

// ReadWatching reads the data of watch_chats.
func ReadWatching(data []byte) (Watching, *conversation.Error) {
	var d Watching
	err := ReadData(data, func(m Member) error {
		if string(m.Name) == "since" {
			return m.WholePointer(&d.Since)
		}
		return nil
	})
	return d, err
}

// FeedStart says where a watch of the feed begins.
type FeedStart struct {
	Head    uint64 // the newest entry
	First   uint64 // the first one that is shown
	Resumed bool
	Reason  string // why not
}

// Append appends the members of the answer to watch_chats.
func (s FeedStart) Append(o *Object) {
	o.Uint("head", s.Head)
	o.Uint("first", s.First)
	o.Bool("resumed", s.Resumed)
	o.Optional("reason", s.Reason)
}

// AppendChatsHello appends the payload of the first event of a stream of the feed.
func AppendChatsHello(dst []byte, s FeedStart) []byte {
	dst = append(dst, `{"type":"hello","data":`...)
	o := NewObject(dst)
	s.Append(&o)
	return append(o.Close(), '}')
}

// AppendChat appends what has happened in a chat: entry is JSON already.
func AppendChat(dst []byte, entry func(dst []byte) []byte) []byte {
	dst = append(dst, `{"type":"chat","data":`...)
	return append(entry(dst), '}')
}

// AppendChatsGone appends that the client is not shown the feed any more.
func AppendChatsGone(dst []byte, reason string) []byte {
	dst = append(dst, `{"type":"chats_gone","data":`...)
	o := NewObject(dst)
	o.Text("reason", reason)
	return append(o.Close(), '}')
}
