package hostile

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// What holds a connection: attacks by what is not read, not sent or not said.

// open connects n times from so many addresses and says nothing.
func (a *attacking) open(ctx context.Context, n, addresses int) {
	a.what = "connections"
	a.many(ctx, n, 3000, 16, func(i int) error {
		c, err := dialFrom(source(i%addresses), a.addr)
		if err == nil {
			a.hold(c)
		}
		return err
	})
	<-ctx.Done()
}

func connections(ctx context.Context, a *attacking) { a.open(ctx, 5000, 2) }

func manyConnections(ctx context.Context, a *attacking) { a.open(ctx, 5000, 200) }

// manyPings are some in one write.
var manyPings = strings.Repeat(string(frame(pingFrame, strings.Repeat("p", 125))), 64)

// ping sends pings until the context ends or the server closes the connection.
func (a *attacking) ping(ctx context.Context, c net.Conn) {
	for ctx.Err() == nil {
		_ = c.SetWriteDeadline(time.Now().Add(500 * time.Millisecond)) // one that is closed fails at the write
		n, err := io.WriteString(c, manyPings)
		a.done.Add(int64(n / 131))
		if err != nil && n == 0 && !timeout(err) {
			return
		}
	}
}

func timeout(err error) bool {
	late, ok := err.(net.Error) //nolint:errorlint // of the connection itself, which wraps nothing
	return ok && late.Timeout()
}

func pings(ctx context.Context, a *attacking) {
	a.what = "pings"
	c, err := a.socket(0)
	if err != nil {
		a.refused.Add(1)
		return
	}
	a.ping(ctx, c)
}

func pingsReadSlowly(ctx context.Context, a *attacking) {
	a.what = "pings"
	c, err := a.socket(0)
	if err != nil {
		a.refused.Add(1)
		return
	}
	go func() {
		some := make([]byte, 64<<10)
		for ctx.Err() == nil {
			pause(ctx, 500*time.Millisecond)
			if _, err := io.ReadFull(c, some); err != nil {
				return
			}
		}
	}()
	a.ping(ctx, c)
}

func pingsBeforeHello(ctx context.Context, a *attacking) {
	a.what = "pings"
	for i := range 20 {
		go func() {
			for ctx.Err() == nil {
				c, err := dialFrom(source(i), a.addr)
				if err == nil {
					err = upgrade(c, a.addr)
				}
				if err != nil {
					a.refused.Add(1)
					pause(ctx, 500*time.Millisecond)
					continue
				}
				a.ping(ctx, c)
				c.Close()
				pause(ctx, 100*time.Millisecond)
			}
		}()
	}
	<-ctx.Done()
}

func unreadPages(ctx context.Context, a *attacking) {
	a.what = "requests"
	a.many(ctx, 80, 40, 80, func(i int) error {
		_, err := a.request(i, get("/api/sessions/"+a.session+"/events?limit=200", a.addr))
		return err
	})
	<-ctx.Done()
}

func pipelines(ctx context.Context, a *attacking) {
	a.what = "connections"
	requests := strings.Repeat(get("/asyncapi.yaml", a.addr), 400)
	a.many(ctx, 20, 20, 20, func(i int) error {
		c, err := dialFrom(source(i), a.addr)
		if err != nil {
			return err
		}
		a.hold(c)
		_ = c.SetWriteDeadline(time.Now().Add(time.Second)) // a server that reads no more takes the rest never
		_, err = io.WriteString(c, requests)
		if timeout(err) {
			return nil
		}
		return err
	})
	<-ctx.Done()
}

// drip sends head at once and then one byte every half second.
func (a *attacking) drip(ctx context.Context, head string) {
	a.what = "connections"
	a.many(ctx, 600, 600, 600, func(i int) error {
		c, err := a.request(i%3, head)
		for err == nil && ctx.Err() == nil {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(500 * time.Millisecond):
				_, err = io.WriteString(c, "x")
			}
		}
		return err
	})
}

func slowHeads(ctx context.Context, a *attacking) {
	a.drip(ctx, "GET /api/sessions HTTP/1.1\r\nHost: "+a.addr+"\r\nX-Long: ")
}

func slowBodies(ctx context.Context, a *attacking) {
	a.drip(ctx, "POST /api/sessions HTTP/1.1\r\nHost: "+a.addr+"\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{")
}

// slowFollowers follow an answer of 780 KB and read nothing of it.
func slowFollowers(ctx context.Context, a *attacking) {
	a.what = "followers"
	a.many(ctx, 20, 40, 4, func(i int) error {
		c, err := a.socket(i)
		if err == nil {
			err = ask(c, `{"type":"follow","id":"2","session":"`+a.session+`","data":{"tail":1}}`, `"type":"synced"`)
		}
		return err
	})
	a.count(a.say(0, "/stream 60000 wordwordword", ""))
	<-ctx.Done()
}

// withoutHello opens sockets and leaves them; the server takes them to wait for hello.
func withoutHello(ctx context.Context, a *attacking) {
	a.what = "sockets"
	open := func(i int) error {
		c, err := dialFrom(source(i%20), a.addr)
		if err != nil {
			return err
		}
		a.hold(c)
		return upgrade(c, a.addr)
	}
	a.many(ctx, 200, 1000, 20, open)
	a.many(ctx, 40*15, 40, 20, open)
}

func largeNames(ctx context.Context, a *attacking) {
	a.what = "sockets"
	command := `{"type":"hello","id":"1","data":{"proto":1,"client":{"name":"` + strings.Repeat("n", 250_000) + `","version":"1"}}}`
	a.many(ctx, 80, 40, 8, func(i int) error {
		c, err := dialFrom(source(i), a.addr)
		if err != nil {
			return err
		}
		a.hold(c)
		if err := upgrade(c, a.addr); err != nil {
			return err
		}
		return ask(c, command, `"type":"ok","re":"1"`)
	})
	<-ctx.Done()
}

// What holds the server up when it is told to end. Each ends when it holds what it has.

func nothing(context.Context, *attacking) {}

func (a *attacking) holds(ctx context.Context, n int, request string) {
	a.what = "held"
	for i := range n {
		_, err := a.request(i, request)
		a.count(err)
	}
	pause(ctx, 300*time.Millisecond) // so that the server has what was sent
}

func holdWait(ctx context.Context, a *attacking) {
	a.holds(ctx, 1, post("/api/sessions/"+a.session+"/messages?wait=5m", a.addr, message(`/wait 60s\n/say hi`, "")))
}

func holdUnread(ctx context.Context, a *attacking) {
	a.holds(ctx, 5, get("/api/sessions/"+a.session+"/events?limit=200", a.addr))
}

func holdHalf(ctx context.Context, a *attacking) { a.holds(ctx, 5, "GET / HTTP/1.1\r\nHo") }

func holdUnused(ctx context.Context, a *attacking) { a.holds(ctx, 5, "") }

func holdSockets(ctx context.Context, a *attacking) {
	a.what = "sockets"
	a.many(ctx, 1000, 500, 16, func(i int) error {
		_, err := a.socket(i)
		return err
	})
}

func holdStreams(ctx context.Context, a *attacking) {
	a.what = "streams"
	a.many(ctx, 1000, 500, 16, func(i int) error {
		c, err := a.request(i, get("/api/sessions/"+a.session+"/stream", a.addr))
		if err != nil {
			return err
		}
		head, err := until(c, "\r\n\r\n")
		if err == nil && !strings.HasPrefix(string(head), "HTTP/1.1 200") {
			err = fmt.Errorf("%.30s", head)
		}
		return err
	})
}
