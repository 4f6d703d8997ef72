package gatewaytest

import (
	"context"
	"fmt"
	"sync"

	"parley/conversation"
	"parley/conversation/chats"
	"parley/persistence/chatstest"
)

// Chats is a chats.Store in maps, whose calls can be made to fail, and whose reads are counted.
type Chats struct {
	*chatstest.Maps

	mu    sync.Mutex
	fail  error
	reads int
}

var _ chats.Store = (*Chats)(nil)

// NewChats is an empty one.
func NewChats() *Chats {
	c := &Chats{}
	c.Maps = chatstest.NewMaps(chatstest.Host{
		Mutex: &c.mu,
		Ready: func(ctx context.Context) error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return c.fail
		},
		Erased: func(conversation.SessionKey) bool { return false }, // a test may go on with the name of an erased one
		Room:   func() error { return nil },
	})
	return c
}

// Fail has every call fail from now on; nil = none.
func (c *Chats) Fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail = err
}

// Reads is how often entries were read.
func (c *Chats) Reads() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reads
}

// Erase drops what belongs to a session.
func (c *Chats) Erase(key conversation.SessionKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Maps.Erase(key)
}

// Entries implements chats.Store.
func (c *Chats) Entries(ctx context.Context, tenant conversation.TenantID, after chats.Number, limit int) ([]chats.Entry, error) {
	c.mu.Lock()
	c.reads++
	c.mu.Unlock()
	return c.Maps.Entries(ctx, tenant, after, limit)
}

// ChatHappening is what gateway/chat stores of an answer that was sent.
func ChatHappening(tenant conversation.TenantID, chat chats.Chat, text string) []byte {
	return fmt.Appendf(nil, `{"topic":"chat.response","timestamp":"2026-11-21T08:30:05.007Z","source":"chat:telegram","severity":"info","summary":"an answer was sent",`+
		`"details":{"channel":"telegram","chat":%q,"session":"s1","message":"p2-s1","in_reply_to":"m1-s1","seq":17,"text":%q,"final":true},"project":%q}`, chat, text, tenant)
}

// ChatEntry is the same as clients get it, in the tenant "default".
func ChatEntry(n chats.Number) string {
	return fmt.Sprintf(`{"number":%d,%s`, n, ChatHappening("default", "telegram:42", "Fixed.")[1:])
}
