package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/attached"
	"parley/conversation/machine/machinetest"
	"parley/gateway"
)

var pixel = []byte("\x89PNG\r\n\x1a\n and what follows")

// upload posts a file.
func (r *rig) upload(path, kind string, body []byte) answer {
	r.t.Helper()
	req, err := http.NewRequest(http.MethodPost, "http://"+r.addr+path, bytes.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	resp, err := r.http.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, b}
}

func (r *rig) session(t *testing.T) string {
	t.Helper()
	return r.call("POST", "/api/sessions", "{}").want(t, 201).get(t, "session")
}

// A file that was uploaded is named by a message, shown with it wherever the message is, and
// read again by its hash.
func TestAttachments(t *testing.T) {
	r := start(t)
	s := r.session(t)
	up := r.upload("/api/sessions/"+s+"/blobs?name=..%2Fmy%20photo.png", "image/png", pixel).want(t, 201)
	hash := up.get(t, "hash")
	if hash != string(attached.HashOf(pixel)) || up.get(t, "name") != "my photo.png" || up.get(t, "type") != "image/png" || up.get(t, "size") != fmt.Sprint(len(pixel)) {
		t.Errorf("%s", up.body)
	}
	r.upload("/api/sessions/"+s+"/blobs", "image/png", pixel).want(t, 200)
	text := r.upload("/api/sessions/"+s+"/blobs?name=a.md", "text/markdown; charset=UTF-8", []byte("# Zürich")).want(t, 201).get(t, "hash")

	send := func(id, more string) answer {
		return r.call("POST", "/api/sessions/"+s+"/messages", `{"client_msg_id":"`+id+`"`+more+`}`)
	}
	both := `,"attachments":[{"hash":"` + hash + `"},{"hash":"` + text + `","name":"notes.md"}]`
	first := send("a", `,"text":"look"`+both).want(t, 202).get(t, "message")
	if again := send("a", `,"text":"look"`+both).want(t, 202); again.get(t, "message") != first || again.get(t, "duplicate") != "true" {
		t.Errorf("%s", again.body)
	}
	send("a", `,"text":"look"`).problem(t, 409, conversation.Conflict)
	send("a", `,"text":"look","attachments":[{"hash":"`+hash+`"}]`).problem(t, 409, conversation.Conflict)
	send("b", `,"attachments":[{"hash":"`+hash+`"}]`).want(t, 202) // a file alone
	send("c", `,"text":" "`).problem(t, 400, conversation.BadRequest)
	send("c", `,"text":"x","attachments":[{"hash":"x"}]`).problem(t, 400, conversation.BadRequest)
	send("c", `,"text":"x","attachments":[{"hash":"`+strings.Repeat("0", 64)+`"}]`).problem(t, 404, conversation.NotFound)

	want := `"attachments":[{"hash":"` + hash + `","name":"my photo.png","type":"image/png","size":25},{"hash":"` + text + `","name":"notes.md","type":"text/markdown","size":9}]`
	for _, path := range []string{"/messages", "/events?since=0"} {
		if got := r.call("GET", "/api/sessions/"+s+path, "").want(t, 200); !bytes.Contains(got.body, []byte(want)) {
			t.Errorf("%s shows %s", path, got.body)
		}
	}

	task := send("a", `,"text":"look"`+both).want(t, 202).get(t, "task")
	for _, path := range []string{"/api/tasks/" + task, "/api/tasks?session=" + s} {
		if got := r.call("GET", path, "").want(t, 200); !bytes.Contains(got.body, []byte(`"prompt":"look",`+want)) {
			t.Errorf("%s shows %s", path, got.body)
		}
	}

	got := r.call("GET", "/api/blobs/"+hash, "").want(t, 200)
	if !bytes.Equal(got.body, pixel) {
		t.Errorf("%q", got.body)
	}
	for name, want := range map[string]string{
		"Content-Type": "image/png", "Content-Disposition": `inline; filename="my photo.png"`, "X-Content-Type-Options": "nosniff",
		"Content-Security-Policy": "default-src 'none'; sandbox; frame-ancestors 'none'", "Etag": `"` + hash + `"`, "Cache-Control": "private, max-age=31536000, immutable",
	} {
		if got.header.Get(name) != want {
			t.Errorf("%s: %q", name, got.header.Get(name))
		}
	}
	if md := r.call("GET", "/api/blobs/"+text+"?session="+s, "").want(t, 200); md.header.Get("Content-Disposition") != "attachment; filename=a.md" || md.header.Get("Content-Type") != "text/markdown; charset=utf-8" {
		t.Errorf("%v", md.header)
	}
	for _, have := range []string{`"` + hash + `"`, `W/"` + hash + `"`, `"other", "` + hash + `"`, "*"} {
		r.call("GET", "/api/blobs/"+hash, "", "If-None-Match", have).want(t, 304)
	}
	for _, have := range []string{hash, `"other"`, `W/"other"`} {
		r.call("GET", "/api/blobs/"+hash, "", "If-None-Match", have).want(t, 200)
	}
	if head := r.call("HEAD", "/api/blobs/"+hash, "").want(t, 200); len(head.body) > 0 || head.header.Get("Content-Length") != "25" {
		t.Errorf("%v %q", head.header, head.body)
	}
	other := r.session(t)
	r.call("GET", "/api/blobs/"+hash+"?session="+other, "").problem(t, 404, conversation.NotFound)
	r.call("POST", "/api/sessions/"+other+"/messages", `{"text":"x","attachments":[{"hash":"`+hash+`"}]}`).problem(t, 404, conversation.NotFound)

	r.upload("/api/sessions/"+other+"/blobs", "image/png", pixel).want(t, 201)
	for _, gone := range []string{s, other} {
		r.call("GET", "/api/blobs/"+hash, "").want(t, 200)
		r.call("DELETE", "/api/sessions/"+gone, "").want(t, 204)
	}
	r.call("GET", "/api/blobs/"+hash, "").problem(t, 404, conversation.NotFound)
}

// What a file is, its bytes say.
func TestAttachmentTypes(t *testing.T) {
	r := start(t)
	path := "/api/sessions/" + r.session(t) + "/blobs"
	for _, c := range []struct {
		kind, body string
		status     int
	}{
		{"image/png", string(pixel), 201},
		{"image/jpeg", "\xff\xd8\xff\xe0 jpeg", 201},
		{"image/gif", "GIF89a gif", 201},
		{"image/webp", "RIFF\x01\x02\x03\x04WEBPVP8 ", 201},
		{"text/plain", "hello", 201},
		{"application/json", `{"a":1}`, 201},
		{"text/csv; charset=us-ascii", "a,b", 201},
		{"image/jpeg", string(pixel), 415},
		{"text/plain", string(pixel), 415},
		{"image/png", "hello, I am a picture", 415},
		{"image/svg+xml", "<svg/>", 415},
		{"text/plain", "caf\xe9", 415},
		{"text/plain; charset=latin1", "cafe", 415},
		{"text/plain", "a\x00b", 415},
		{"application/pdf", "%PDF-1.7", 415},
		{"application/octet-stream", "\x01\x02", 415},
		{"", "hello", 415},
	} {
		a := r.upload(path, c.kind, []byte(c.body))
		if a.status != c.status {
			t.Errorf("%s of %q: %d %s", c.kind, c.body, a.status, a.body)
		}
	}
	r.upload(path, "text/plain", nil).problem(t, 400, conversation.BadRequest)
	r.upload("/api/sessions/nosuch/blobs", "text/plain", []byte("x")).problem(t, 404, conversation.NotFound)
	if n := r.metric("parley_attachments_uploads_total"); n != 7 {
		t.Errorf("%v uploads were counted", n)
	}
	if n := r.metric("parley_attachments_refused_total", "code", "unsupported_media_type"); n != 10 {
		t.Errorf("%v refusals were counted", n)
	}
}

// The limits of files, from both sides.
func TestAttachmentLimits(t *testing.T) {
	r := start(t, limits(func(l *gateway.Limits) { l.AttachmentBytes, l.AttachmentsPerMessage, l.BodyBytes = 3<<20, 2, 4096 }))
	s := r.session(t)
	body := bytes.Repeat([]byte("x"), 3<<20)
	hash := r.upload("/api/sessions/"+s+"/blobs", "text/plain", body).want(t, 201).get(t, "hash")
	if got := r.call("GET", "/api/blobs/"+hash, "").want(t, 200); !bytes.Equal(got.body, body) {
		t.Errorf("%d bytes came back", len(got.body))
	}
	// One byte more: it is refused by what its head says, before it is read.
	conn, in := r.raw(t, fmt.Sprintf("POST /api/sessions/%s/blobs HTTP/1.1\r\nHost: %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n", s, r.addr, 3<<20+1))
	defer conn.Close()
	if line, err := in.ReadString('\n'); err != nil || !strings.Contains(line, "413") {
		t.Errorf("%q, %v", line, err)
	}
	if rest, err := io.ReadAll(in); err != nil || !strings.Contains(string(rest), "at most 3145728 bytes") {
		t.Errorf("%q, %v", rest, err)
	}
	// Nor is more than that read of one that does not say it.
	chunked := fmt.Sprintf("POST /api/sessions/%s/blobs HTTP/1.1\r\nHost: %s\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n1\r\n", s, r.addr, 3<<20, body)
	more, in := r.raw(t, chunked)
	defer more.Close()
	if all, err := io.ReadAll(in); err != nil || !strings.Contains(string(all), "at most 3145728 bytes") {
		t.Errorf("%q, %v", all, err)
	}
	if n := r.metric("parley_attachments_refused_total", "code", "too_large"); n != 2 {
		t.Errorf("%v refusals were counted", n)
	}
	names := func(n int) string {
		return `{"text":"x","attachments":[` + strings.TrimSuffix(strings.Repeat(`{"hash":"`+hash+`"},`, n), ",") + `]}`
	}
	r.call("POST", "/api/sessions/"+s+"/messages", names(2)).want(t, 202)
	r.call("POST", "/api/sessions/"+s+"/messages", names(3)).problem(t, 413, conversation.TooLarge)
	r.call("POST", "/api/sessions/"+s+"/messages", `{"text":"`+strings.Repeat("x", 5000)+`"}`).problem(t, 413, conversation.TooLarge)
}

// As many files as there are places are read at once. The others are refused at once, and a
// place that was given back is taken again.
func TestUploadsAtOnce(t *testing.T) {
	r := start(t, limits(func(l *gateway.Limits) { l.UploadsAtOnce = 1 }))
	s := r.session(t)
	head := fmt.Sprintf("POST /api/sessions/%s/blobs HTTP/1.1\r\nHost: %s\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n", s, r.addr)
	first, answered := r.raw(t, head+"Expect: 100-continue\r\n\r\n")
	if line, err := answered.ReadString('\n'); err != nil || !strings.Contains(line, "100") { // it has its place
		t.Fatalf("%q, %v", line, err)
	}
	_, _ = answered.ReadString('\n')
	if _, err := first.Write([]byte("ab")); err != nil {
		t.Fatal(err)
	}
	_, refused := r.raw(t, head+"\r\n")
	if line, err := refused.ReadString('\n'); err != nil || !strings.Contains(line, "503") {
		t.Errorf("%q, %v", line, err)
	}
	if _, err := first.Write([]byte("cd")); err != nil {
		t.Fatal(err)
	}
	if line, err := answered.ReadString('\n'); err != nil || !strings.Contains(line, "201") {
		t.Fatalf("%q, %v", line, err)
	}
	r.upload("/api/sessions/"+s+"/blobs", "text/plain", []byte("efgh")).want(t, 201)
}

// What no message names is taken away in time, what one names is not, and a message gives a
// file more time as soon as it names it.
func TestUploadsThatNobodyNames(t *testing.T) {
	now := newClock(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	r := start(t, func(_ *gateway.Config, d *gateway.Deps) { d.Files.Now = now.read })
	files := r.files
	s := r.session(t)
	put := func(body string) string {
		return r.upload("/api/sessions/"+s+"/blobs", "text/plain", []byte(body)).want(t, 201).get(t, "hash")
	}
	named, orphan := put("named"), put("orphan")
	r.call("POST", "/api/sessions/"+s+"/messages", `{"text":"x","attachments":[{"hash":"`+named+`"}]}`).want(t, 202)
	now.add(54 * time.Minute)
	late := put("late")
	files.Sweep(t.Context())
	r.call("GET", "/api/blobs/"+orphan, "").want(t, 200)
	now.add(2 * time.Minute)
	files.Sweep(t.Context())
	r.call("GET", "/api/blobs/"+orphan, "").problem(t, 404, conversation.NotFound)
	r.call("POST", "/api/sessions/"+s+"/messages", `{"text":"x","attachments":[{"hash":"`+orphan+`"}]}`).problem(t, 404, conversation.NotFound)
	now.add(45 * time.Minute)
	r.call("POST", "/api/sessions/"+s+"/messages", `{"text":"x","attachments":[{"hash":"`+late+`"}]}`).want(t, 202)
	now.add(24 * time.Hour)
	files.Sweep(t.Context())
	r.call("GET", "/api/blobs/"+named, "").want(t, 200)
	r.call("GET", "/api/blobs/"+late, "").want(t, 200)
	if n := r.metric("parley_attachments_swept_total"); n != 1 {
		t.Errorf("%v were swept", n)
	}
}

// clock is a clock that a test moves.
type clock struct{ at atomic.Int64 }

func newClock(at time.Time) *clock {
	c := &clock{}
	c.at.Store(at.UnixNano())
	return c
}

func (c *clock) read() time.Time     { return time.Unix(0, c.at.Load()).UTC() }
func (c *clock) add(d time.Duration) { c.at.Add(int64(d)) }

// A file is seen by who may read a session that has it, and is not there for anybody else:
// not for another tenant, a stranger, or a member who may only read when it comes to upload.
func TestAttachmentsOfOthers(t *testing.T) {
	r := start(t, withAuth(credentials{}))
	as := func(name string) []string { return []string{"Authorization", "Bearer " + name} }
	s := r.call("POST", "/api/sessions", "{}", as("owner")...).want(t, 201).get(t, "session")
	r.call("PUT", "/api/sessions/"+s+"/members/rea", `{"role":"reader"}`, as("owner")...).want(t, 200)
	hash := r.call("POST", "/api/sessions/"+s+"/blobs", `{"a":1}`, as("owner")...).want(t, 201).get(t, "hash")
	for name, status := range map[string]int{
		"owner": 200, "reader": 200, "stranger": 404, "owner's name in another tenant": 404, "runtime": 404, "administrator": 404, "watcher of chats": 403,
	} {
		for _, more := range []string{"", "?session=" + s} {
			if a := r.call("GET", "/api/blobs/"+hash+more, "", as(name)...); a.status != status {
				t.Errorf("%s%s: %d %s", name, more, a.status, a.body)
			}
		}
	}
	r.call("POST", "/api/sessions/"+s+"/blobs", `{"b":1}`, as("reader")...).problem(t, 403, conversation.Forbidden)
	r.call("POST", "/api/sessions/"+s+"/blobs", `{"b":1}`, as("stranger")...).problem(t, 404, conversation.NotFound)
}

// Who may not upload to a session takes no place, and hears why he may not; the wrong
// credentials of an address count as everywhere else.
func TestOnlySendersTakePlaces(t *testing.T) {
	r := start(t, withAuth(credentials{}), limits(func(l *gateway.Limits) { l.UploadsAtOnce = 1 }))
	as := func(name string) []string { return []string{"Authorization", "Bearer " + name} }
	s := r.call("POST", "/api/sessions", "{}", as("owner")...).want(t, 201).get(t, "session")
	r.call("PUT", "/api/sessions/"+s+"/members/rea", `{"role":"reader"}`, as("owner")...).want(t, 200)
	head := func(session, name string) string {
		return fmt.Sprintf("POST /api/sessions/%s/blobs HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: 7\r\nAuthorization: Bearer %s\r\n\r\n", session, r.addr, name)
	}
	for _, c := range []struct{ session, name, status string }{
		{s, "nobody", "401"}, {s, "reader", "403"}, {s, "stranger", "404"}, {s, "watcher of chats", "403"}, {"nosuch", "owner", "404"}, {s + "%2Ft1", "owner", "404"}, {"%zz", "owner", "404"},
	} {
		_, answered := r.raw(t, head(c.session, c.name)) // and not a byte of the file
		if line, err := answered.ReadString('\n'); err != nil || !strings.Contains(line, c.status) {
			t.Errorf("%s in %s: %q, %v", c.name, c.session, line, err)
		}
		r.call("POST", "/api/sessions/"+s+"/blobs", `{"a":1}`, as("owner")...)
		if n := r.metric("parley_gateway_refused_total", "limit", "uploads_at_once"); n != 0 {
			t.Fatalf("%s has taken a place", c.name)
		}
	}
	for range 20 {
		_, answered := r.raw(t, head(s, "prl_abc_guess"))
		line, err := answered.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, "429") {
			return
		}
	}
	t.Error("nobody counts the keys that are tried")
}

// One user gets no more places than are left for others.
func TestUploadsLeavePlacesToOthers(t *testing.T) {
	r := start(t, withAuth(credentials{}), limits(func(l *gateway.Limits) { l.UploadsAtOnce = 4 }))
	sessions := map[string]string{}
	for _, name := range []string{"owner", "owner's name in another tenant"} {
		sessions[name] = r.call("POST", "/api/sessions", "{}", "Authorization", "Bearer "+name).want(t, 201).get(t, "session")
	}
	var slow []struct {
		net.Conn
		in *bufio.Reader
	}
	for n, c := range []struct {
		name  string
		place bool
	}{
		{"owner", true}, {"owner", true}, {"owner", false},
		{"owner's name in another tenant", true}, {"owner's name in another tenant", false}, {"owner", false},
	} {
		conn, in := r.raw(t, fmt.Sprintf("POST /api/sessions/%s/blobs HTTP/1.1\r\nHost: %s\r\nContent-Type: text/plain\r\nContent-Length: 9\r\n", sessions[c.name], r.addr)+
			"Expect: 100-continue\r\nAuthorization: Bearer "+c.name+"\r\n\r\n")
		if line, err := in.ReadString('\n'); err != nil || !strings.Contains(line, "100") {
			t.Fatalf("%d: %q, %v", n, line, err)
		}
		_, _ = in.ReadString('\n')
		if c.place {
			slow = append(slow, struct {
				net.Conn
				in *bufio.Reader
			}{conn, in})
			continue // its file does not come yet
		}
		if line, err := in.ReadString('\n'); err != nil || !strings.Contains(line, "503") {
			t.Errorf("%d: %s: %q, %v", n, c.name, line, err)
		}
	}
	for n, c := range slow {
		_, err := fmt.Fprintf(c, "the file%d", n)
		line, wrong := c.in.ReadString('\n')
		if err := errors.Join(err, wrong); err != nil || !strings.Contains(line, "201") {
			t.Errorf("slow one %d: %q, %v", n, line, err)
		}
	}
}

// A file of one's own is found however many sessions of others have the same bytes; what they
// have is not asked for one by one. PROTOCOL.md, rule 8.3b.
func TestAFileThatManyHave(t *testing.T) {
	reads := &countingRows{}
	r := start(t, withAuth(credentials{}), func(_ *gateway.Config, d *gateway.Deps) { reads.engine, d.Sessions = d.Sessions, reads })
	body := []byte(`{"a":1}`)
	file := attached.File{Hash: attached.HashOf(body), Name: "a", Type: "application/json", Size: int64(len(body))}
	r.sessions.Play(func(w *machinetest.World) {
		for i := range 1100 {
			w.Do(conversation.SessionKey{Tenant: acme, Session: conversation.SessionID(fmt.Sprintf("a%04d", i))}, conversation.Create{Owner: "ann"})
		}
		w.Do(conversation.SessionKey{Tenant: acme, Session: "z"}, conversation.Create{Owner: "str"})
		for i := range 1100 {
			w.Do(conversation.SessionKey{Tenant: acme, Session: conversation.SessionID(fmt.Sprintf("b%04d", i))}, conversation.Create{Owner: "ann"})
		}
	})
	put := func(id string) {
		t.Helper()
		if _, _, err := r.sessions.Blobs().Put(t.Context(), conversation.SessionKey{Tenant: acme, Session: conversation.SessionID(id)}, file, time.Now(), body); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 1100 {
		put(fmt.Sprintf("a%04d", i))
		put(fmt.Sprintf("b%04d", i))
	}
	as := []string{"Authorization", "Bearer stranger"}
	reads.summaries.Store(0)
	r.call("GET", "/api/blobs/"+string(file.Hash), "", as...).problem(t, 404, conversation.NotFound)
	if n := reads.summaries.Load(); n > 0 {
		t.Errorf("%d sessions of others were looked at", n)
	}
	put("z")
	r.call("GET", "/api/blobs/"+string(file.Hash), "", as...).want(t, 200)
	r.call("GET", "/api/blobs/"+string(file.Hash)+"?session=z", "", as...).want(t, 200)
	r.call("GET", "/api/blobs/"+string(file.Hash)+"?session=a0001", "", as...).problem(t, 404, conversation.NotFound)
}

// countingRows counts the rows of single sessions that are read.
type countingRows struct {
	engine
	summaries atomic.Int64
}

func (s *countingRows) Summary(ctx context.Context, key conversation.SessionKey) (conversation.Summary, error) {
	s.summaries.Add(1)
	return s.engine.Summary(ctx, key)
}
