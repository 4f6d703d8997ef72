package nodes

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"parley/cmd/parley-bench/internal/load"
	"parley/persistence/postgres/pgtest"
)

// A cluster for people says where its nodes are, they are ready, and an interrupt ends all
// of it.
func TestLocal(t *testing.T) {
	if why := pgtest.Missing(); why != "" {
		t.Skip(why)
	}
	if testing.Short() {
		t.Skip("it starts a database and three processes")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	said, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := (&Local{Server: server(t), Nodes: 2, Gateway: true, Lease: 5e9}).run(ctx, out)
		ended <- err
		_ = out.CloseWithError(err)
	}()
	var addrs []string
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		if _, rest, ok := strings.Cut(lines.Text(), "http://"); ok && strings.Contains(lines.Text(), " pid ") {
			addr, _, _ := strings.Cut(rest, " ")
			addrs = append(addrs, addr)
		}
		if strings.HasPrefix(lines.Text(), "Ctrl-C") {
			break
		}
	}
	if len(addrs) != 3 {
		cancel()
		t.Fatalf("nodes at %v: %v", addrs, <-ended)
	}
	go func() { _, _ = io.Copy(io.Discard, said) }()
	for _, addr := range addrs {
		if status, body, err := get(ctx, addr, "/readyz"); err != nil || status != http.StatusOK {
			t.Errorf("%s: %d %s %v", addr, status, body, err)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for _, addr := range addrs {
		if _, _, err := get(context.Background(), addr, "/livez"); err == nil {
			t.Errorf("%s still answers", addr)
		}
	}
}

// A node that is ended while its database does not answer ends all the same: with code 1,
// by drain.timeout and five seconds (here 3 s and 5 s; a busy machine has twice that).
func TestEndsWithoutTheDatabase(t *testing.T) {
	if why := pgtest.Missing(); why != "" {
		t.Skip(why)
	}
	if testing.Short() {
		t.Skip("it starts a database, and waits for a node's end")
	}
	db, err := openAlone(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{database: db, lease: 5 * time.Second, base: t.TempDir(), program: server(t), running: t.Context(), failed: make(chan error, 64)}
	t.Cleanup(func() {
		if err := c.close(); err != nil {
			t.Error(err)
		}
	})
	if err := c.openLocal(t.Context(), 1, false); err != nil {
		t.Fatal(err)
	}
	conn, err := load.Dial(c.sessions[0].addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	session, err := conn.Create()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Ask("send", session, `{"client_msg_id":"m","text":"/noreply"}`); err != nil {
		t.Fatal(err)
	}
	if err := db.primary.Freeze(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.primary.Thaw() })
	p := c.sessions[0].endable()
	if err := p.server.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _, err := c.sessions[0].endsWithin(p, 16*time.Second, 1, "SIGTERM without a database"); err != nil {
		t.Error(err)
	}
}
