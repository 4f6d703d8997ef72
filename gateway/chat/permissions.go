package chat

import (
	"slices"
	"sync"
)

// permission is what a person may do in a chat.
type permission uint8

const (
	nothing permission = iota
	read               // ask, and see the state
	write              // everything
)

// may says what the sender of an update may do. Who is on no list is not answered: the log
// says, once, which id to add.
func (c *Channel) may(u Update) permission {
	l := c.settings.Allow
	chat := u.Allowed
	if chat == "" {
		chat = u.Chat
	}
	user := u.From.ID
	switch {
	case u.Workspace != "" && !on(l.Workspaces, u.Workspace):
		c.stranger("allow_workspaces", u.Workspace, "workspace")
	case !on(l.Chats, chat):
		c.stranger("allow_chats", chat, "chat")
	case on(l.Users, user):
		return write
	case on(l.Readers, user):
		return read
	default:
		c.stranger("allow_users", user, "user")
	}
	return nothing
}

func on(list []string, id string) bool {
	return slices.Contains(list, id) || slices.Contains(list, "*")
}

// stranger counts and logs an update of somebody who is on no list.
func (c *Channel) stranger(list, id, what string) {
	c.refused(list)
	if c.strange.first(list + "\x00" + id) {
		c.d.Logger.Warn("a message was ignored: its "+what+" is on no list; to admit it add the id to channels."+string(c.Name())+"."+list, "id", id)
	}
}

// refused counts an update that was not taken.
func (c *Channel) refused(reason string) {
	c.d.Metrics.Refused.WithLabelValues(string(c.Name()), reason).Inc()
}

// strangers remembers whom the log has named, so that nobody fills it.
type strangers struct {
	mu   sync.Mutex
	seen map[string]bool
}

// namedStrangers bounds how many the log names until the next start.
const namedStrangers = 1000

func newStrangers() *strangers { return &strangers{seen: map[string]bool{}} }

func (s *strangers) first(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[id] || len(s.seen) >= namedStrangers {
		return false
	}
	s.seen[id] = true
	return true
}
