package listener

import (
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// half is a connection whose writing can be ended.
type half struct {
	*end
	ended bool
}

func (h *half) CloseWrite() error { h.ended = true; return nil }

func halves() (*half, net.Conn) {
	server, client := net.Pipe()
	return &half{end: &end{Conn: server, from: "192.0.2.1:1"}}, client
}

// What a client still sends is read and thrown away, as long as it goes on and not for ever;
// so many connections at once, and none once the listener is closed.
func TestLinger(t *testing.T) {
	for _, c := range []struct {
		name  string
		sends func(client net.Conn) error
		took  time.Duration
	}{
		{"one that is silent", func(net.Conn) error { return nil }, lingerSilence},
		{"one that ends", func(client net.Conn) error {
			_, err := client.Write(make([]byte, 1000))
			return errors.Join(err, client.Close())
		}, 0},
		{"one that does not end", func(client net.Conn) error {
			for {
				if _, err := client.Write([]byte("x")); err != nil {
					return nil
				}
				time.Sleep(3 * time.Second / 2)
			}
		}, lingerTime + time.Second/2}, // it notices when it sends again
		{"one that sends too much", func(client net.Conn) error {
			for sent := 0; ; {
				n, err := client.Write(make([]byte, 1<<20))
				if sent += n; err != nil && sent != lingerBytes {
					return err
				}
				if err != nil {
					return nil
				}
			}
		}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			server, client := halves()
			l := New(newQueue(server), Settings{Lingering: 1})
			conn, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			conn.(interface{ Linger() }).Linger()
			began := time.Now()
			if err := conn.Close(); err != nil || l.Count() != 1 {
				t.Errorf("%s: %v, %d are open", c.name, err, l.Count())
			}
			synctest.Wait()
			if !server.ended {
				t.Errorf("%s: it is not told that the answer ends", c.name)
			}
			if err := c.sends(client); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			_, _ = io.Copy(io.Discard, client) // to its end
			synctest.Wait()
			if took := time.Since(began); took != c.took || l.Count() != 0 {
				t.Errorf("%s: it took %v, %d are open", c.name, took, l.Count())
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		var servers []*half
		q := newQueue()
		for range 3 {
			server, _ := halves()
			servers = append(servers, server)
			q.items <- server
		}
		l := New(q, Settings{Lingering: 1})
		for i, lingers := range []bool{true, false, false} {
			conn, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			conn.(interface{ Linger() }).Linger()
			if i == 2 { // the server goes away
				_ = l.Close()
				l.CloseUnused()
				synctest.Wait()
				if l.Count() != 0 {
					t.Errorf("%d are open at the end", l.Count())
				}
			}
			_ = conn.Close()
			synctest.Wait()
			if servers[i].ended != lingers {
				t.Errorf("connection %d lingers: %v", i, servers[i].ended)
			}
		}
	})
}
