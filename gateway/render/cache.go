package render

import (
	"container/list"
	"crypto/sha256"
	"sync"

	"parley/conversation"
)

// cache keeps what was rendered last, by bytes. A session's entries are found by its
// tree, so that they go with it when it is erased.
type cache struct {
	most int

	mu    sync.Mutex
	bytes int
	used  list.List // of *entry, the last used first
	trees map[conversation.SessionKey]map[entryKey]*list.Element
}

// entryKey is a text of a message. The text is part of it: a restored log may have
// another one under the same id.
type entryKey struct {
	session conversation.SessionID
	message conversation.MessageID
	text    [sha256.Size]byte
}

type entry struct {
	tree conversation.SessionKey
	key  entryKey
	html string
}

// entryOverhead is about what an entry takes beside its HTML and its ids.
const entryOverhead = 300

func (e *entry) size() int {
	return entryOverhead + len(e.html) + len(e.key.session) + len(e.key.message)
}

func treeOf(key conversation.SessionKey) conversation.SessionKey {
	return conversation.SessionKey{Tenant: key.Tenant, Session: key.Session.Root()}
}

func newCache(most int) *cache {
	return &cache{most: most, trees: make(map[conversation.SessionKey]map[entryKey]*list.Element)}
}

func (c *cache) get(tree conversation.SessionKey, key entryKey) (html string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.trees[tree][key]
	if at == nil {
		return "", false
	}
	c.used.MoveToFront(at)
	return at.Value.(*entry).html, true
}

func (c *cache) put(tree conversation.SessionKey, key entryKey, html string) {
	e := &entry{tree: tree, key: key, html: html}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.size() > c.most || c.trees[tree][key] != nil {
		return
	}
	if c.trees[tree] == nil {
		c.trees[tree] = make(map[entryKey]*list.Element)
	}
	c.trees[tree][key] = c.used.PushFront(e)
	for c.bytes += e.size(); c.bytes > c.most; {
		c.drop(c.used.Back())
	}
}

// drop takes an entry out. The caller holds mu.
func (c *cache) drop(at *list.Element) {
	e := c.used.Remove(at).(*entry)
	c.bytes -= e.size()
	entries := c.trees[e.tree]
	if delete(entries, e.key); len(entries) == 0 {
		delete(c.trees, e.tree)
	}
}

// forget drops what is of a session and those below it.
func (c *cache) forget(tree conversation.SessionKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, at := range c.trees[tree] {
		c.drop(at)
	}
}
