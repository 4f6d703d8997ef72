//go:build ignore

// This is an outside runtime, as small as one can be: it claims messages from
// a parley server and answers them. docs/RUNTIMES.md explains each request.
//
//	PARLEY_URL=http://127.0.0.1:8080 PARLEY_TOKEN=… go run docs/runtimes/go/main.go
package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"log"
	"net/http"
	"os"
	"strings"
	"time"
)

type object = map[string]any

// answer is where your agent comes in. It gives the parts of the answer, at least
// one, none blank, and the same ones when it is asked again: a runtime that died may
// have said some of them. If it takes minutes it calls alive now and then.
func answer(text string, alive func()) ([]string, error) { return strings.Split(text, "|"), nil }

func main() {
	for name := "go-" + rand.Text(); ; { // one name for each process
		var claimed struct{ Items []message }
		if status := post("/api/runtime/claim", object{"runtime": name, "wait": "30s"}, &claimed); status != http.StatusOK {
			log.Fatal("the claim was refused: ", status)
		}
		for _, m := range claimed.Items {
			m.work()
		}
	}
}

type message struct {
	Session, Message, Text string
	Generation             int
	NextPart               int `json:"next_part"`
}

func (m message) work() {
	path := "/api/sessions/" + m.Session
	status := path + "/messages/" + m.Message + "/runtime"
	parts, err := answer(m.Text, func() { post(status, object{"status": "alive", "generation": m.Generation}, nil) })
	if err != nil { // the message is handed out again, three times in all
		post(status, object{"status": "failed", "generation": m.Generation, "error": err.Error()}, nil)
		return
	}
	for k := min(m.NextPart, len(parts)-1); k < len(parts); k++ { // those before are stored
		part := object{"source_id": m.Message, "part_index": k, "generation": m.Generation, "text": parts[k], "final": k == len(parts)-1}
		if post(path+"/parts", part, nil) >= 400 {
			return // it was cancelled, or another runtime has it now
		}
	}
}

// post repeats a request until the server has taken or refused it: that does no harm.
func post(path string, body object, into any) int {
	text, _ := json.Marshal(body)
	for ; ; time.Sleep(time.Second) {
		request, _ := http.NewRequest("POST", os.Getenv("PARLEY_URL")+path, bytes.NewReader(text))
		request.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + os.Getenv("PARLEY_TOKEN")}}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			log.Print(err)
			continue
		}
		_ = json.NewDecoder(response.Body).Decode(&into)
		_ = response.Body.Close()
		if response.StatusCode < 500 && response.StatusCode != http.StatusTooManyRequests {
			return response.StatusCode
		}
		log.Print(path, ": ", response.Status)
	}
}
