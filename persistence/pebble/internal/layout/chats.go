package layout

import (
	"encoding/binary"
	"fmt"
	"time"

	"parley/conversation"
	"parley/conversation/chats"
)

// What a channel remembers lies with its session in table 09, so that its text goes with
// the session's as one range; the tables behind it say where a row or an entry is. None of
// them has text.

// UnclearedChats is the value in table 07 of a session that had keys in table 09.
var UnclearedChats = []byte{0x01}

// ChatsPrefix is the common prefix of all keys of one session in table 09.
func ChatsPrefix(b []byte, key conversation.SessionKey) []byte {
	return AppendString(TenantPrefix(b, TableChats, key.Tenant), string(key.Session))
}

// KeyChatRow is the key of the value of a chat's row.
func KeyChatRow(b []byte, k chats.Key, session conversation.SessionID) []byte {
	b = append(ChatsPrefix(b, conversation.SessionKey{Tenant: k.Tenant, Session: session}), KindChatRow)
	return AppendString(AppendString(b, string(k.Channel)), string(k.Chat))
}

// KeyChatEntry is the key of an entry.
func KeyChatEntry(b []byte, tenant conversation.TenantID, session conversation.SessionID, n chats.Number) []byte {
	b = append(ChatsPrefix(b, conversation.SessionKey{Tenant: tenant, Session: session}), KindChatEntry)
	return AppendU64(b, uint64(n))
}

// A ChatKey is a key of table 09: of a row, or of an entry.
type ChatKey struct {
	Of     conversation.SessionKey
	Row    chats.Key    // if Number is 0
	Number chats.Number // 0 = it is a row
}

// CutChat reads a key of table 09.
func CutChat(b []byte) (k ChatKey, ok bool) {
	if len(b) == 0 || b[0] != TableChats {
		return k, false
	}
	of, rest, ok := CutSession(b[1:])
	if !ok || len(rest) == 0 {
		return k, false
	}
	k.Of = of
	switch rest[0] {
	case KindChatRow:
		channel, rest, ok := CutString(rest[1:])
		if !ok {
			return k, false
		}
		chat, rest, ok := CutString(rest)
		k.Row = chats.Key{Tenant: of.Tenant, Channel: chats.Channel(channel), Chat: chats.Chat(chat)}
		return k, ok && len(rest) == 0
	case KindChatEntry:
		if len(rest) != 9 {
			return k, false
		}
		k.Number = chats.Number(binary.BigEndian.Uint64(rest[1:]))
		return k, k.Number > 0
	}
	return k, false
}

// ChannelPrefix is the common prefix of the rows of a channel in table 0a.
func ChannelPrefix(b []byte, tenant conversation.TenantID, channel chats.Channel) []byte {
	return AppendString(TenantPrefix(b, TableChatRows, tenant), string(channel))
}

// KeyChat is a key of table 0a.
func KeyChat(b []byte, k chats.Key) []byte {
	return AppendString(ChannelPrefix(b, k.Tenant, k.Channel), string(k.Chat))
}

// CutChatRow reads a key of table 0a.
func CutChatRow(b []byte) (k chats.Key, ok bool) {
	if len(b) == 0 || b[0] != TableChatRows {
		return k, false
	}
	tenant, rest, ok := CutString(b[1:])
	if !ok {
		return k, false
	}
	channel, rest, ok := CutString(rest)
	if !ok {
		return k, false
	}
	chat, rest, ok := CutString(rest)
	return chats.Key{Tenant: conversation.TenantID(tenant), Channel: chats.Channel(channel), Chat: chats.Chat(chat)}, ok && len(rest) == 0
}

// AppendChat appends the value of a key of table 0a.
func AppendChat(b []byte, rev chats.Revision, session conversation.SessionID) []byte {
	return append(AppendU64(b, uint64(rev)), session...)
}

// CutChatValue reads the value of a key of table 0a.
func CutChatValue(v []byte) (rev chats.Revision, session conversation.SessionID, err error) {
	if len(v) < 8 {
		return 0, "", fmt.Errorf("%w: where the row of a chat is cannot be read", conversation.ErrDamaged)
	}
	return chats.Revision(binary.BigEndian.Uint64(v)), conversation.SessionID(v[8:]), nil
}

// KeyFeed is a key of table 0b.
func KeyFeed(b []byte, tenant conversation.TenantID, n chats.Number) []byte {
	return AppendU64(TenantPrefix(b, TableFeed, tenant), uint64(n))
}

// CutFeed reads a key of table 0b.
func CutFeed(b []byte) (tenant conversation.TenantID, n chats.Number, ok bool) {
	if len(b) == 0 || b[0] != TableFeed {
		return "", 0, false
	}
	name, rest, ok := CutString(b[1:])
	if !ok || len(rest) != 8 {
		return "", 0, false
	}
	return conversation.TenantID(name), chats.Number(binary.BigEndian.Uint64(rest)), true
}

// KeyFeedEnd is a key of table 0c.
func KeyFeedEnd(b []byte, tenant conversation.TenantID) []byte {
	return TenantPrefix(b, TableFeedEnd, tenant)
}

// CutFeedEnd reads the value of a key of table 0c.
func CutFeedEnd(v []byte) (chats.Number, error) {
	if len(v) != 8 {
		return 0, fmt.Errorf("%w: the end of a feed cannot be read", conversation.ErrDamaged)
	}
	return chats.Number(binary.BigEndian.Uint64(v)), nil
}

// AppendChatEntry appends the value of an entry.
func AppendChatEntry(b []byte, e chats.Entry) []byte {
	return append(AppendU64(b, Ordered(e.At.UnixMilli())), e.Value...)
}

// CutChatEntry reads the value of an entry; it keeps nothing of v.
func CutChatEntry(v []byte) (at time.Time, value []byte, err error) {
	if len(v) < 8 {
		return at, nil, fmt.Errorf("%w: an entry of a feed cannot be read", conversation.ErrDamaged)
	}
	return time.UnixMilli(Unordered(binary.BigEndian.Uint64(v))).UTC(), append([]byte{}, v[8:]...), nil
}
