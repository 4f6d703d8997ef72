package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/persistence/postgres/pgtest"
)

// crashing uploads files to a server that is killed again and again, and keeps what it knows.
type crashing struct {
	t    *testing.T
	left atomic.Int64 // bytes until the server is killed
	once *sync.Once
	at   atomic.Pointer[live]

	mu    sync.Mutex
	files map[string]*crashed // by hash: all that were ever sent
	rand  *rand.Rand
}

type crashed struct {
	session        string
	body           []byte
	acked          bool // the upload was
	tried, settled bool // a message names it: perhaps, certainly
}

// counted is the body of an upload; the server is killed while it is sent.
type counted struct {
	io.Reader
	of *crashing
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p[:min(len(p), 4096)])
	if c.of.left.Add(-int64(n)) < 0 {
		c.of.once.Do(func() { _ = c.of.at.Load().cmd.Process.Kill() })
	}
	return n, err
}

// request is one to the server; status 0 = there was no answer.
func (c *crashing) request(method, path, kind string, body io.Reader, size int) (status int, got []byte) {
	request, err := http.NewRequestWithContext(c.t.Context(), method, "http://"+c.at.Load().addr+path, body)
	if err != nil {
		c.t.Error(err)
		return 0, nil
	}
	request.ContentLength = int64(size)
	request.Header.Set("Content-Type", kind)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil
	}
	defer response.Body.Close()
	if got, err = io.ReadAll(response.Body); err != nil {
		return 0, nil
	}
	return response.StatusCode, got
}

// send uploads files to a session, and names most of them, until the server is gone.
func (c *crashing) send(session string) {
	for {
		c.mu.Lock()
		body := make([]byte, 1+c.rand.IntN(700_000))
		for i := range min(len(body), 16) {
			body[i] = 'a' + byte(c.rand.IntN(26))
		}
		for i := 16; i < len(body); i++ {
			body[i] = body[i%16]
		}
		names := c.rand.IntN(3) > 0
		hash := fmt.Sprintf("%x", sha256.Sum256(body))
		f := &crashed{session: session, body: body}
		c.files[hash] = f
		c.mu.Unlock()
		status, got := c.request("POST", "/api/sessions/"+session+"/blobs", "text/plain", counted{bytes.NewReader(body), c}, len(body))
		if status == 0 {
			return
		}
		if status != 201 {
			c.t.Errorf("upload: %d %s", status, got)
			return
		}
		f.acked, f.tried = true, names
		if !names {
			continue
		}
		say := `{"text":"/say x","attachments":[{"hash":"` + hash + `"}]}`
		status, got = c.request("POST", "/api/sessions/"+session+"/messages", "application/json", strings.NewReader(say), len(say))
		if status == 0 {
			return
		}
		if f.settled = status == 202; !f.settled {
			c.t.Errorf("message: %d %s", status, got)
			return
		}
	}
}

// named are the files that messages of a session name.
func (c *crashing) named(session string) map[string]bool {
	named := map[string]bool{}
	for since := "0"; since != ""; {
		status, got := c.at.Load().do("GET", "/api/sessions/"+session+"/events?limit=200&since="+since, "")
		var page struct {
			Items []struct {
				Data struct {
					Attachments []struct{ Hash string }
				}
			}
			Next string `json:"next_cursor"`
		}
		if err := json.Unmarshal(got, &page); err != nil || status != 200 {
			c.t.Fatalf("%d %v: %.200s", status, err, got)
		}
		for _, e := range page.Items {
			for _, a := range e.Data.Attachments {
				named[a.Hash] = true
			}
		}
		since = page.Next
	}
	return named
}

// check compares what is there with what was acknowledged; swept: nothing else may be left.
func (c *crashing) check(sessions []string, swept bool) (acked, named, half int) {
	c.t.Helper()
	by := map[string]map[string]bool{}
	for _, s := range sessions {
		by[s] = c.named(s)
		for hash := range by[s] {
			if f := c.files[hash]; f == nil || !f.acked || !f.tried || f.session != s {
				c.t.Errorf("a message of %s names %s, which was not acknowledged to anybody", s, hash)
			}
		}
	}
	for hash, f := range c.files {
		is := by[f.session][hash]
		url, method := "/api/blobs/"+hash+"?session="+f.session, "GET"
		if swept && !is {
			method = "HEAD" // what is swept while it is read breaks off
		}
		status, got := c.at.Load().do(method, url, "")
		for until := time.Now().Add(patience); method == "HEAD" && status == 200 && time.Now().Before(until); {
			<-time.After(20 * time.Millisecond)
			status, _ = c.at.Load().do(method, url, "") // until it is swept
		}
		switch {
		case f.settled && !is:
			c.t.Errorf("the message with %s is gone", hash)
		case status == 200 && !(swept && !is):
			if !bytes.Equal(got, f.body) {
				c.t.Errorf("%s came back as %d bytes of %d", hash, len(got), len(f.body))
			}
		case status != 404 || is || !swept && f.acked:
			c.t.Errorf("%s (acknowledged: %v, named: %v): %d", hash, f.acked, is, status)
		}
		if f.acked {
			acked++
		} else {
			half++
		}
		if is {
			named++
		}
	}
	return acked, named, half
}

// kill -9 at random bytes of uploads, a few times: what was acknowledged is there byte for
// byte, messages name nothing else, and what no message names is gone in time. PARLEY_SEED
// repeats a seed, PARLEY_ROUNDS does it longer. N-01, N-02.
func TestKilledInMidUpload(t *testing.T) {
	for name, place := range map[string]func(t *testing.T) []string{
		"embedded": func(*testing.T) []string { return nil },
		"PostgreSQL": func(t *testing.T) []string {
			dsn := filepath.Join(t.TempDir(), "dsn")
			if err := os.WriteFile(dsn, []byte(pgtest.Open(t, pgtest.Settings{}).NewDatabase(t)), 0o600); err != nil {
				t.Fatal(err)
			}
			return []string{"--set", "store.postgres=file:" + dsn, "--set", "cluster.node=n1"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			seed, rounds := uint64(time.Now().UnixNano()), 4
			if s, err := strconv.ParseUint(os.Getenv("PARLEY_SEED"), 10, 64); err == nil {
				seed = s
			}
			if n, err := strconv.Atoi(os.Getenv("PARLEY_ROUNDS")); err == nil {
				rounds = n
			}
			t.Logf("again: PARLEY_SEED=%d go test ./cmd/parley -run '^%s$'", seed, t.Name())
			c := &crashing{t: t, files: map[string]*crashed{}, rand: rand.New(rand.NewPCG(seed, 0))}
			data, args := t.TempDir(), place(t)
			var sessions []string
			for round := range rounds {
				c.at.Store(spawn(t, data, args...))
				if round == 0 {
					for range 3 {
						sessions = append(sessions, c.at.Load().session())
					}
				}
				c.once = &sync.Once{}
				c.left.Store(c.rand.Int64N(6_000_000))
				var clients sync.WaitGroup
				for _, s := range sessions {
					clients.Go(func() { c.send(s) })
				}
				clients.Wait()
				<-c.at.Load().ended
				c.at.Store(spawn(t, data, args...))
				acked, named, half := c.check(sessions, false)
				t.Logf("round %d: %d files acknowledged, %d named, %d not acknowledged", round+1, acked, named, half)
				c.at.Load().kill()
			}
			c.at.Store(spawn(t, data, append(args, "--set", "limits.upload_max_age=1s")...))
			acked, named, _ := c.check(sessions, true)
			if acked == named || named == 0 {
				t.Errorf("%d files were acknowledged and %d named: that proves nothing", acked, named)
			}
			c.at.Load().stop()
			if args == nil {
				if code, out, errs := run("verify", data, "--config", emptyConfig(t)); code != exitOK || !strings.Contains(out, "no problem found") {
					t.Errorf("verify: %d %s%s", code, out, errs)
				}
			}
		})
	}
}
