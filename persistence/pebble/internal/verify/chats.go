package verify

import (
	"parley/conversation"
	"parley/conversation/chats"
	"parley/persistence/pebble/internal/layout"
)

// chats checks all tables of what channels remember.
func (c *check) chats() {
	c.walk([]byte{layout.TableChats}, c.chat)
	c.walk([]byte{layout.TableChatRows}, c.chatRow)
	c.walk([]byte{layout.TableFeed}, c.feedEntry)
	c.walk([]byte{layout.TableFeedEnd}, c.feedEnd)
}

// chat checks a row or an entry: the lists have to name it.
func (c *check) chat(k, v []byte) {
	of, ok := layout.CutChat(k)
	switch {
	case !ok:
		c.problem(RuleUnknown, conversation.SessionKey{}, "key %x of what channels remember cannot be read", k)
	case of.Number == 0:
		c.report.Counts.Chats++
		listed, ok := c.get(layout.KeyChat(nil, of.Row))
		if _, session, err := layout.CutChatValue(listed); !ok || err != nil || session != of.Of.Session {
			c.problem(RuleChats, of.Of, "the list of chats does not have the row of %s as one of this session", of.Row.Chat)
		}
	default:
		c.report.Counts.Entries++
		if _, _, err := layout.CutChatEntry(v); err != nil {
			c.problem(RuleChats, of.Of, "entry %d of the feed cannot be read", of.Number)
		}
		if session, ok := c.get(layout.KeyFeed(nil, of.Of.Tenant, of.Number)); !ok || conversation.SessionID(session) != of.Of.Session {
			c.problem(RuleChats, of.Of, "the feed does not have entry %d as one of this session", of.Number)
		}
	}
}

// chatRow checks an entry of the list of chats.
func (c *check) chatRow(k, v []byte) {
	key, ok := layout.CutChatRow(k)
	rev, session, err := layout.CutChatValue(v)
	if !ok || err != nil || rev == 0 {
		c.problem(RuleUnknown, conversation.SessionKey{}, "key %x of the list of chats cannot be read", k)
		return
	}
	if _, ok := c.get(layout.KeyChatRow(nil, key, session)); !ok {
		c.problem(RuleChats, conversation.SessionKey{Tenant: key.Tenant, Session: session}, "the list of chats has the row of %s, which is not there", key.Chat)
	}
}

// feedEntry checks an entry of the list of a feed's entries.
func (c *check) feedEntry(k, v []byte) {
	tenant, n, ok := layout.CutFeed(k)
	if !ok || n == 0 {
		c.problem(RuleUnknown, conversation.SessionKey{}, "key %x of a feed cannot be read", k)
		return
	}
	of := conversation.SessionKey{Tenant: tenant, Session: conversation.SessionID(v)}
	if _, ok := c.get(layout.KeyChatEntry(nil, tenant, of.Session, n)); !ok {
		c.problem(RuleChats, of, "the feed has entry %d, which is not there", n)
	}
	if last := c.feedLast(tenant); n > last {
		c.problem(RuleChats, of, "the feed has entry %d, but says that it ends with %d", n, last)
	}
}

func (c *check) feedLast(tenant conversation.TenantID) chats.Number {
	v, _ := c.get(layout.KeyFeedEnd(nil, tenant))
	last, _ := layout.CutFeedEnd(v) // one that cannot be read is a problem of its own
	return last
}

func (c *check) feedEnd(k, v []byte) {
	_, rest, ok := layout.CutString(k[1:])
	if last, err := layout.CutFeedEnd(v); !ok || len(rest) > 0 || err != nil || last == 0 {
		c.problem(RuleUnknown, conversation.SessionKey{}, "key %x of the ends of feeds cannot be read", k)
	}
}
