package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"

	parley "parley/clients/go"
)

// say prints a line.
var say = func() func(map[string]any) {
	var mu sync.Mutex
	return func(line map[string]any) {
		b, err := json.Marshal(line)
		if err != nil {
			b = []byte("{}")
		}
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf("%s\n", b)
	}
}()

func main() {
	client, err := parley.Connect(os.Getenv("PARLEY_URL"), parley.Options{
		OnConnection: func(c parley.Connection) {
			var closed *parley.CloseError
			if c.Final && errors.As(c.Err, &closed) {
				say(map[string]any{"stopped": closed.Code})
			}
		},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer client.Close()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var line struct {
			Follow, Send, Text, ID, Answer, Session string
			Stop                                    bool
		}
		if json.Unmarshal(lines.Bytes(), &line) != nil {
			continue
		}
		switch {
		case line.Stop:
			return
		case line.Follow != "":
			go follow(client, client.Follow(line.Follow, parley.Start()))
		case line.Send != "":
			post(client, parley.Message{Session: line.Session, ClientMsgID: line.ID, Text: line.Send})
		case line.Answer != "":
			post(client, parley.Message{Session: line.Session, ClientMsgID: line.ID, Text: line.Text, Question: line.Answer})
		}
	}
}

func follow(c *parley.Client, f *parley.Following) {
	for e, err := range f.All(context.Background()) {
		if err != nil {
			return
		}
		if b, ok := e.Body.(*parley.Followed); ok && b.Again && !b.Resumed {
			say(map[string]any{"reset": f.Session(), "reason": b.Reason})
			if b.First > 1 { // what comes is the tail of the new log
				from := parley.Start()
				from.Log = b.Log
				go follow(c, c.Follow(f.Session(), from))
				return
			}
		}
		if e.Seq > 0 {
			say(map[string]any{"seq": e.Seq, "type": e.Type, "session": e.Session})
		}
	}
}

func post(c *parley.Client, m parley.Message) {
	sent, err := c.Post(m)
	if err != nil {
		say(map[string]any{"failed": m.ClientMsgID, "code": parley.CodeOf(err)})
		return
	}
	go func() {
		receipt, err := sent.Wait(context.Background())
		switch {
		case err == nil:
			say(map[string]any{"sent": m.ClientMsgID, "message": receipt.Message})
		case parley.CodeOf(err) != "":
			say(map[string]any{"failed": m.ClientMsgID, "code": parley.CodeOf(err)})
		}
	}()
}
