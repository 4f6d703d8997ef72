package hostile

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// What asks for much: attacks by requests that are answered.

// profiles are what a web page can ask a server on the reader's own machine: requests
// without Origin, given up at once, beside small ones that fill the trace.
func profiles(ctx context.Context, a *attacking) {
	a.what = "requests"
	ask := func(path string) string {
		return "GET " + path + " HTTP/1.1\r\nHost: " + a.addr + "\r\nSec-Fetch-Site: cross-site\r\n\r\n"
	}
	for _, path := range []string{"/debug/pprof/trace?seconds=86400", "/debug/pprof/profile?seconds=86400"} {
		c, err := a.request(0, ask(path))
		if err == nil {
			pause(ctx, 200*time.Millisecond)
			c.Close()
		}
		a.count(err)
	}
	a.clients(ctx, 2, 1000, func(int) string { return ask("/livez") })
}

// clients do requests one after the other, each at most so many a second.
func (a *attacking) clients(ctx context.Context, n, perSecond int, request func(i int) string) {
	var all sync.WaitGroup
	defer all.Wait()
	for client := range n {
		all.Go(func() {
			tick := time.NewTicker(time.Second / time.Duration(perSecond))
			defer tick.Stop()
			for i := 0; ctx.Err() == nil; {
				c, err := dialFrom(source(client), a.addr)
				if err != nil {
					a.refused.Add(1)
					pause(ctx, 100*time.Millisecond)
					continue
				}
				for r := bufio.NewReader(c); ctx.Err() == nil && err == nil; i++ {
					<-tick.C
					if err = one(c, r, request(i)); err == nil {
						a.done.Add(1)
					}
				}
				if ctx.Err() == nil {
					a.refused.Add(1)
					pause(ctx, 20*time.Millisecond)
				}
				c.Close()
			}
		})
	}
}

// one does a request on a kept connection.
func one(c io.Writer, r *bufio.Reader, request string) error {
	if _, err := io.WriteString(c, request); err != nil {
		return err
	}
	answer, err := http.ReadResponse(r, nil)
	if err != nil {
		return err
	}
	if _, err = io.Copy(io.Discard, answer.Body); err == nil && answer.StatusCode >= 300 {
		err = fmt.Errorf("%s", answer.Status)
	}
	return err
}

func streams(ctx context.Context, a *attacking) {
	a.what = "streams"
	a.many(ctx, 1500, 1000, 16, func(int) error {
		c, err := a.request(0, get("/api/sessions/"+a.session+"/stream", a.addr))
		if err != nil {
			return err
		}
		defer c.Close()
		head, err := until(c, "\r\n\r\n")
		if err == nil && string(head[9:12]) != "200" {
			err = fmt.Errorf("%.30s", head)
		}
		return err
	})
	<-ctx.Done()
}

func createSessions(ctx context.Context, a *attacking) {
	a.what = "sessions"
	a.clients(ctx, 4, 500, func(int) string { return post("/api/sessions", a.addr, `{}`) })
}

func listTasks(ctx context.Context, a *attacking) {
	a.what = "lists"
	a.clients(ctx, 4, 100, func(int) string { return get("/api/tasks?limit=200", a.addr) })
}

// deadWaits leaves requests that wait, and then makes events.
func deadWaits(ctx context.Context, a *attacking) {
	a.what = "requests and events"
	waits := post("/api/sessions/"+a.session+"/messages?wait=5m", a.addr, message("/say x", "queue"))
	a.many(ctx, 900, 450, 64, func(i int) error {
		c, err := a.request(i, waits)
		if err == nil {
			pause(ctx, 50*time.Millisecond)
			c.Close()
		}
		return err
	})
	c, err := a.socket(0)
	if err != nil {
		return
	}
	// A message that is read by nothing yet, and is edited again and again.
	if _, err := c.Write(frame(textFrame, `{"type":"send","id":"2","session":"`+a.session+`","data":{"client_msg_id":"e","text":"x","mode":"queue"}}`)); err != nil {
		return
	}
	answer, err := until(c, `"re":"2"`)
	var sent struct{ Data struct{ Message string } }
	if err == nil {
		err = json.Unmarshal(payload(answer), &sent)
	}
	if err != nil {
		return
	}
	for i := 3; ctx.Err() == nil; i++ {
		pause(ctx, 100*time.Millisecond)
		id := strconv.Itoa(i)
		a.count(ask(c, `{"type":"edit","id":"`+id+`","session":"`+a.session+`","data":{"message":"`+sent.Data.Message+`","text":"`+id+`"}}`, `"re":"`+id+`"`))
	}
}

// payload is what a frame of the server holds.
func payload(b []byte) []byte {
	for i := range b {
		if b[i] == '{' {
			return b[i:]
		}
	}
	return nil
}

func largeReplies(ctx context.Context, a *attacking) {
	a.what = "messages"
	long := make([]byte, 900_000)
	for i := range long {
		long[i] = 'm'
	}
	request := post("/api/sessions/"+a.session+"/messages", a.addr, `{"text":"/say x","in_reply_to":"`+string(long)+`"}`)
	a.many(ctx, 100, 20, 4, func(i int) error {
		c, err := dialFrom(source(i), a.addr)
		if err != nil {
			return err
		}
		status, _, err := exchange(c, request)
		if err == nil && status >= 300 {
			err = errors400(status)
		}
		return err
	})
	<-ctx.Done()
}

// errors400 is a refusal by its status.
type errors400 int

func (e errors400) Error() string { return strconv.Itoa(int(e)) }
