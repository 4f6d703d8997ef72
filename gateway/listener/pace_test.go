package listener

import (
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// What may take long must come at a pace: who sends less is cut off soon, who sends more has
// all the time that he was given, and what is quick may be as slow as it likes.
func TestPace(t *testing.T) {
	for name, c := range map[string]struct {
		within time.Duration // the deadline
		bytes  int           // that come each second
		want   time.Duration // until the end
		slow   int           // how often it was too slow
	}{
		"a byte a second":       {10 * time.Minute, 1, 15 * time.Second, 1},
		"nothing":               {10 * time.Minute, 0, 15 * time.Second, 1},
		"half the pace":         {10 * time.Minute, 50, 30 * time.Second, 1},
		"a little too slow":     {10 * time.Minute, 99, 10 * time.Minute, 0},
		"as fast as it must be": {10 * time.Minute, 100, 10 * time.Minute, 0},
		"fast":                  {10 * time.Minute, 10_000, 10 * time.Minute, 0},
		"a short time":          {time.Minute, 1, time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, server := net.Pipe()
				slow := 0
				of := &Bounded{o: Settings{Slowest: 100, Patience: time.Minute, Slow: func() { slow++ }}}
				at := &conn{Conn: server, of: of}
				over := make(chan struct{})
				go func() {
					every := time.NewTicker(time.Second)
					defer every.Stop()
					for {
						select {
						case <-over:
							return
						case <-every.C:
						}
						if c.bytes == 0 {
							continue
						}
						if _, err := client.Write(make([]byte, c.bytes)); err != nil {
							return
						}
					}
				}()
				begun := time.Now()
				if err := at.SetReadDeadline(begun.Add(c.within)); err != nil {
					t.Fatal(err)
				}
				b := make([]byte, 1<<16)
				var err error
				for err == nil {
					_, err = at.Read(b)
				}
				if took := time.Since(begun); !errors.Is(err, os.ErrDeadlineExceeded) || took < c.want-time.Second || took > c.want+time.Second {
					t.Errorf("after %v, want %v: %v", took, c.want, err)
				}
				if slow != c.slow {
					t.Errorf("too slow %d times, want %d", slow, c.slow)
				}
				close(over)
				_, _ = client.Close(), server.Close()
			})
		})
	}
}
