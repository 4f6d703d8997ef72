package acp

import (
	"context"

	"parley/conversation"
	"parley/conversation/access"
	"parley/gateway/protocol"
)

// maxListed is how many sessions a page has at most, and maxLooked how many of the tenant it looks at.
const (
	maxListed = 50
	maxLooked = 5000
)

// list answers session/list. A session has no directory: each is said to be in the one that is
// asked for, so that editors show it.
func (c *conn) list(m *message) *fault {
	var p struct {
		Cwd    string `json:"cwd"`
		Cursor string `json:"cursor"`
	}
	if bad := m.params(&p); bad != nil {
		return bad
	}
	if p.Cwd == "" {
		p.Cwd = "/"
	}
	id := m.ID
	c.start(func() {
		ctx, done := context.WithTimeout(c.socket.Context, c.x.Times.Request)
		defer done()
		rows, next, err := c.rows(ctx, p.Cursor)
		if err != nil {
			c.fail(id, err)
			return
		}
		c.reply(id, func(o *protocol.Object) {
			o.Key("sessions")
			o.Bytes = append(o.Bytes, '[')
			for i, row := range rows {
				if i > 0 {
					o.Bytes = append(o.Bytes, ',')
				}
				r := protocol.NewObject(o.Bytes)
				r.Text("sessionId", string(row.Key.Session))
				r.Text("cwd", p.Cwd)
				r.Optional("title", row.Title)
				r.Time("updatedAt", row.Activity)
				o.Bytes = r.Close()
			}
			o.Bytes = append(o.Bytes, ']')
			o.Optional("nextCursor", next)
		})
	})
	return nil
}

func (c *conn) rows(ctx context.Context, cursor string) (rows []conversation.Summary, next string, err error) {
	who := c.socket.Who
	cursors := c.x.Cursors.For(who, "acp")
	if cursor, err = cursors.Show(cursor); err != nil {
		return nil, "", err
	}
	looked := 0
	var last conversation.Summary
	for row, err := range c.x.Sessions.Sessions(ctx, conversation.Page{Tenant: who.Tenant, For: who.User, Cursor: cursor}) {
		if err != nil {
			return nil, "", err
		}
		if looked++; looked > maxLooked || len(rows) == maxListed {
			return rows, cursors.Hide(last.PageCursor()), nil
		}
		if last = row; row.Role(who.User) != access.None && !row.Marks.Archived() {
			rows = append(rows, row)
		}
	}
	return rows, "", nil
}
