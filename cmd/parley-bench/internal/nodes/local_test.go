package nodes

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

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
