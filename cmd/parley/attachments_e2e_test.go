package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"parley/persistence/postgres/pgtest"
)

// upload posts a file to a session; hash is "" if it was not taken.
func (l *live) upload(session, kind string, body []byte) (hash string, status int, err error) {
	request, err := http.NewRequestWithContext(l.t.Context(), "POST", "http://"+l.addr+"/api/sessions/"+session+"/blobs?name=a", bytes.NewReader(body))
	if err != nil {
		return "", 0, err
	}
	request.Header.Set("Content-Type", kind)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", 0, err
	}
	defer response.Body.Close()
	var got struct{ Hash string }
	err = json.NewDecoder(response.Body).Decode(&got)
	if err == nil && response.StatusCode/100 == 2 && got.Hash != fmt.Sprintf("%x", sha256.Sum256(body)) {
		err = fmt.Errorf("the hash is %s", got.Hash)
	}
	return got.Hash, response.StatusCode, err
}

// session makes one.
func (l *live) session() string {
	l.t.Helper()
	status, body := l.do("POST", "/api/sessions", "{}")
	var made struct{ Session string }
	if err := json.Unmarshal(body, &made); err != nil || made.Session == "" {
		l.t.Fatalf("%d %s: %v", status, body, err)
	}
	return made.Session
}

// clustered starts so many nodes of a cluster, with a database of their own. They are processes:
// one that finds that it is no member any more ends at once.
func clustered(t *testing.T, n int, args ...string) []*live {
	t.Helper()
	if pgtest.Missing() != "" {
		t.Skip("NOT RUN: ", pgtest.Missing())
	}
	dsn := filepath.Join(t.TempDir(), "dsn")
	if err := os.WriteFile(dsn, []byte(pgtest.Open(t, pgtest.Settings{}).NewDatabase(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	var nodes []*live
	for i := range n {
		port, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_ = port.Close()
		nodes = append(nodes, spawn(t, t.TempDir(), append([]string{"--set", "store.postgres=file:" + dsn, "--set", "cluster.listen=" + port.Addr().String(),
			"--set", "cluster.insecure=true", "--set", fmt.Sprint("cluster.node=n", i)}, args...)...))
	}
	return nodes
}

// A file is uploaded at one node of a cluster, named by a message at another one and read at
// a third, wherever the session lives; it goes with the last session that has it.
func TestAttachmentsInACluster(t *testing.T) {
	nodes := clustered(t, 3)
	body := append([]byte("\x89PNG\r\n\x1a\n"), bytes.Repeat([]byte("pixel"), 1<<17)...) // several chunks
	var hash string
	var sessions []string
	for n := range 6 { // wherever they live
		s := nodes[n%3].session()
		sessions = append(sessions, s)
		h, status, err := nodes[n%3].upload(s, "image/png", body)
		if err != nil || status != 201 {
			t.Fatalf("upload %d: %d %v", n, status, err)
		}
		hash = h
		say := fmt.Sprintf(`{"client_msg_id":"a","text":"/say seen","attachments":[{"hash":%q}]}`, hash)
		if status, got := nodes[(n+1)%3].do("POST", "/api/sessions/"+s+"/messages?wait=20s", say); status != 200 {
			t.Fatalf("message %d: %d %s", n, status, got)
		}
		if status, got := nodes[(n+2)%3].do("GET", "/api/blobs/"+hash+"?session="+s, ""); status != 200 || !bytes.Equal(got, body) {
			t.Fatalf("read %d: %d, %d bytes of %d", n, status, len(got), len(body))
		}
		if status, got := nodes[(n+2)%3].do("GET", "/api/sessions/"+s+"/messages", ""); status != 200 || !bytes.Contains(got, []byte(`"attachments":[{"hash":"`+hash)) {
			t.Errorf("messages %d: %d %s", n, status, got)
		}
	}
	if status, got := nodes[1].do("POST", "/api/sessions/"+nodes[0].session()+"/messages", `{"text":"x","attachments":[{"hash":"`+hash+`"}]}`); status != 404 {
		t.Errorf("a file of other sessions: %d %s", status, got)
	}
	for n, s := range sessions {
		if status, _ := nodes[n%3].do("GET", "/api/blobs/"+hash, ""); status != 200 {
			t.Errorf("%d sessions before the last: %d", len(sessions)-n, status)
		}
		if status, got := nodes[(n+1)%3].do("DELETE", "/api/sessions/"+s, ""); status != 204 {
			t.Fatalf("erase: %d %s", status, got)
		}
	}
	for _, node := range nodes {
		if status, _ := node.do("GET", "/api/blobs/"+hash, ""); status != 404 {
			t.Errorf("after the last session: %d", status)
		}
	}
}

// A backup has the files: a restored server gives what messages name, byte for byte, and a
// message may still name what was uploaded before.
func TestAttachmentsInABackup(t *testing.T) {
	root := t.TempDir()
	data, dest, place := filepath.Join(root, "data"), filepath.Join(root, "backup"), filepath.Join(root, "new")
	l := spawn(t, data)
	s := l.session()
	named, lent := bytes.Repeat([]byte("named"), 1<<17), []byte("lent")
	var hashes []string
	for _, body := range [][]byte{named, lent} {
		hash, status, err := l.upload(s, "text/plain", body)
		if err != nil || status != 201 {
			t.Fatal(status, err)
		}
		hashes = append(hashes, hash)
	}
	send := func(hash string) {
		t.Helper()
		if status, got := l.do("POST", "/api/sessions/"+s+"/messages?wait=20s", `{"text":"/say seen","attachments":[{"hash":"`+hash+`"}]}`); status != 200 {
			t.Fatalf("%d %s", status, got)
		}
	}
	send(hashes[0])
	over := make(chan struct{})
	var uploads sync.WaitGroup
	for n := range 4 { // files come while it is made
		uploads.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-over:
					return
				default:
				}
				if _, status, err := l.upload(s, "text/plain", bytes.Repeat(fmt.Appendf(nil, "%d of %d", i, n), 10_000)); err != nil || status != 201 {
					t.Errorf("%d %v", status, err)
					return
				}
			}
		})
	}
	code, out, errs := run("backup", dest, "--config", emptyConfig(t), "--server", "http://"+l.addr)
	close(over)
	uploads.Wait()
	if code != exitOK {
		t.Fatalf("backup: %d %s%s", code, out, errs)
	}
	l.kill()
	if code, out, errs := run("restore", dest, "--config", emptyConfig(t), "--data", place); code != exitOK {
		t.Fatalf("restore: %d %s%s", code, out, errs)
	}
	clean := func() {
		t.Helper()
		for _, dir := range []string{dest, place, data} {
			if code, out, errs := run("verify", dir, "--config", emptyConfig(t)); code != exitOK || !strings.Contains(out, "no problem found") || strings.Contains(out, ", 0 attachments\n") || !strings.Contains(out, " attachments\n") {
				t.Errorf("verify %s: %d %s%s", dir, code, out, errs)
			}
		}
	}
	clean()
	l = start(t, place)
	send(hashes[1])
	for i, want := range [][]byte{named, lent} {
		if status, got := l.do("GET", "/api/blobs/"+hashes[i], ""); status != 200 || !bytes.Equal(got, want) {
			t.Errorf("file %d: %d, %d bytes of %d", i, status, len(got), len(want))
		}
	}
	l.stop()
	clean()
}
