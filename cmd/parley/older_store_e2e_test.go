package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// M-31: the data directory of a program of before receipts had evidence and runtimes
// had leases, killed while a question was open and a runtime had said one part. This
// one serves it: what was said is there as it was, a message that is sent again is
// known, the question is answered, the runtime goes on in the old way, and an override
// that the configuration allows no more is no reason not to be loaded. The file is
// what that program wrote: never change it.
func TestStoreOfAnOlderProgram(t *testing.T) {
	const session, outside = "lqe7j465gr5uu3dr", "aj46t6bka6tnrjsd"
	data := t.TempDir()
	unpack(t, "testdata/store_before_receipts.tar.gz", data)
	l := start(t, data)
	u := l.user()
	u.follow(session, 0)
	status, body := l.do("GET", "/api/sessions/"+session+"/messages", "")
	for _, want := range []string{
		`{"type":"message","message":"m1-` + session + `","client_msg_id":"a","author":"local","text":"/say hello"`, `"text":"it is noon","in_reply_to":"m2-` + session + `","final":true`,
		`"how":"answered"`, `"text":"/ask Which city?\n/say done"`,
	} {
		if status != 200 || !strings.Contains(string(body), want) {
			t.Errorf("%d: %s is not in\n%s", status, want, body)
		}
	}
	if strings.Contains(string(body), "evidence") {
		t.Errorf("an old receipt has got evidence:\n%s", body)
	}
	if again := u.send(session, "a", "/say hello"); again["duplicate"] != true || again["message"] != "m1-"+session {
		t.Errorf("a message of before is sent again: %v", again)
	}
	if status, body := l.do("GET", "/api/sessions/"+session, ""); status != 200 || !strings.Contains(string(body), `"task.max_steps":40`) || !strings.Contains(string(body), `"text":"Which city?"`) {
		t.Errorf("%d %s", status, body)
	}
	if status, body := l.do("POST", "/api/tasks/t3-"+session+"/reply", `{"reply":"Berlin"}`); status != 200 {
		t.Errorf("the open question: %d %s", status, body)
	}
	if status, body := l.do("POST", "/api/sessions/"+session+"/messages?wait=30s", `{"client_msg_id":"d","text":"/say and on"}`); status != 200 || !strings.Contains(string(body), "and on") {
		t.Errorf("the next message: %d %s", status, body)
	}
	if _, body := l.do("GET", "/api/tasks/t3-"+session, ""); !strings.Contains(string(body), `"status":"COMPLETE"`) || !strings.Contains(string(body), "done") {
		t.Errorf("the task of before has not ended: %s", body)
	}
	for _, part := range []struct {
		body string
		want int
	}{
		{fmt.Sprintf(`{"source_id":"m1-%s","part_index":0,"text":"part of old"}`, outside), 200},
		{fmt.Sprintf(`{"source_id":"m1-%s","part_index":1,"text":"the rest","final":true}`, outside), 201},
	} {
		if status, body := l.do("POST", "/api/sessions/"+outside+"/parts", part.body); status != part.want {
			t.Errorf("%s: %d %s", part.body, status, body)
		}
	}
	if _, body := l.do("GET", "/api/tasks/t1-"+outside, ""); !strings.Contains(string(body), `"status":"COMPLETE"`) {
		t.Errorf("the runtime's task: %s", body)
	}
	l.stop()
}

// unpack writes the files of an archive into a directory.
func unpack(t *testing.T, archive, into string) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		content, err := io.ReadAll(r)
		if err == nil {
			err = os.WriteFile(filepath.Join(into, filepath.Base(h.Name)), content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
