package rest

import (
	"parley/gateway/protocol"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
)

// reply answers a request with a JSON object.
func reply(c *fiber.Ctx, status int, data func(o *protocol.Object)) error {
	scratch := protocol.GetBuffer()
	o := protocol.NewObject((*scratch)[:0])
	data(&o)
	body := o.Close()
	if cap(body) <= protocol.MaxPooled { // a larger one would not go back to the pool: it is the answer itself
		*scratch = body
		body = append([]byte(nil), body...)
		protocol.PutBuffer(scratch)
	}
	return send(c, status, body)
}

// send answers a request with a JSON body, which is not used for anything else.
func send(c *fiber.Ctx, status int, body []byte) error {
	c.Status(status)
	c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	return c.Send(body)
}

// list is a page of a list while it is written, in the memory that is sent. It ends
// by the number of its items and by its bytes: an answer that its client takes slowly,
// or not at all, is kept in memory for that long.
type list struct {
	body  []byte
	items int
	limit int // items; 0 = no limit
	bytes int // 0 = no limit
}

// newList begins a page of at most limit items.
func newList(s *service.Services, limit int) *list {
	return &list{body: []byte(`{"items":[`), limit: limit, bytes: s.Limits.PageBytes}
}

// add appends an item; false = the page is full without it. A first item always fits.
func (l *list) add(item func(dst []byte) []byte) bool {
	if l.limit > 0 && l.items == l.limit {
		return false
	}
	before := len(l.body)
	if l.items > 0 {
		l.body = append(l.body, ',')
	}
	l.body = item(l.body)
	if l.items > 0 && l.bytes > 0 && len(l.body) > l.bytes {
		l.body = l.body[:before]
		return false
	}
	l.items++
	return true
}

// send answers a request with the page. An empty cursor is the end of the list.
func (l *list) send(c *fiber.Ctx, next string) error {
	b := append(l.body, `],"next_cursor":`...)
	if next == "" {
		b = append(b, "null"...)
	} else {
		b = protocol.AppendString(b, next)
	}
	return send(c, fiber.StatusOK, append(b, '}'))
}
