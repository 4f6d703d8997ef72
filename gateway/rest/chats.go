package rest

import (
	"strconv"

	"parley/conversation/chats"
	"parley/gateway/door"
	"parley/gateway/feed"
	"parley/gateway/protocol"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
)

// number reads the number of an entry of the feed of chats; nil when there is none.
func number(value, name string) (*chats.Number, error) {
	n, given, err := sequence(value, name)
	if err != nil || !given {
		return nil, err
	}
	number := chats.Number(n)
	return &number, nil
}

// listChats serves GET /api/chats: the feed of the tenant's chats as pages.
func listChats(s *API, c *fiber.Ctx) error {
	limit, cursor, err := paging(c)
	if err != nil {
		return err
	}
	after, err := number(cursor, "cursor")
	if err != nil {
		return err
	}
	since, err := number(c.Query("since"), "since")
	if err != nil {
		return err
	}
	if since != nil {
		after = since
	}
	if after == nil {
		after = new(chats.Number)
	}
	if s.Feeds == nil {
		return service.ErrNoChats
	}
	ctx, cancel := s.Deadline()
	defer cancel()
	entries, err := s.Feeds.Entries(ctx, door.Principal(c).Tenant, *after, limit+1)
	if err != nil {
		return err
	}
	page, next, last := newList(s.Services, limit), "", *after
	for _, e := range entries {
		if !page.add(func(b []byte) []byte { return feed.AppendEntry(b, e) }) {
			next = strconv.FormatUint(uint64(last), 10)
			break
		}
		last = e.Number
	}
	return page.send(c, next)
}

// streamChats serves GET /api/chats/stream: the feed of the tenant's chats as it grows.
func streamChats(s *API, c *fiber.Ctx) error {
	cursor := c.Get("Last-Event-ID")
	if cursor == "" {
		cursor = c.Query("since")
	}
	after, err := number(cursor, "since")
	if err != nil {
		return err
	}
	if s.Feeds == nil {
		return service.ErrNoChats
	}
	who := door.Principal(c)
	free, err := s.StreamSlot(c, who)
	if err != nil {
		return err
	}
	ctx, cancel := s.Deadline()
	defer cancel()
	watch, from, err := s.Feeds.Open(ctx, who.Tenant, after)
	if err != nil {
		free()
		return err
	}
	st := newStream(s, c, s.Hub.NewQueue(s.Sessions, s.Limits))
	st.out.Answer(func(b []byte) []byte {
		return protocol.AppendChatsHello(b, protocol.FeedStart{Head: uint64(from.Head), First: uint64(from.First), Resumed: from.Resumed, Reason: from.Reason})
	})
	w := &watching{watch: watch, ended: make(chan struct{})}
	st.source = w
	go w.run(st)
	s.Stream(c, who, door.EventStream, st, free)
	return nil
}

// watching fills the queue of a stream with what happens in chats.
type watching struct {
	watch *feed.Watch
	ended chan struct{}
}

// run ends with the stream, or ends it.
func (w *watching) run(st *stream) {
	defer close(w.ended)
	defer st.Close()
	for {
		entries, err := w.watch.Next(st.ctx)
		for i := 0; err == nil && i < len(entries); i++ {
			err = st.out.Offer(st.ctx, func(b []byte) []byte { return appendChatEvent(b, entries[i]) })
		}
		if err != nil {
			return
		}
	}
}

// Ended implements source: the end is a frame in the queue.
func (w *watching) Ended() bool { return false }

// Close implements source. The stream's context has ended.
func (w *watching) Close() {
	<-w.ended
	w.watch.Close()
}

// appendChatEvent appends an entry as a server-sent event, whose id a browser resumes behind.
func appendChatEvent(dst []byte, e chats.Entry) []byte {
	dst = append(dst, "id: "...)
	dst = strconv.AppendUint(dst, uint64(e.Number), 10)
	dst = append(dst, "\nevent: "...)
	dst = append(dst, feed.Topic(e.Value)...)
	dst = append(dst, "\ndata: "...)
	dst = feed.AppendEntry(dst, e)
	return append(dst, "\n\n"...)
}
