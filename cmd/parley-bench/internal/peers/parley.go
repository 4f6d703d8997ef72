package peers

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"parley/cmd/parley-bench/internal/load"
)

// parley is the server itself, with its store as it comes: each commit is synced.
type parley struct{ server *load.Server }

func startParley(program string) func(context.Context, string) (contender, error) {
	return func(_ context.Context, dir string) (contender, error) {
		s, err := load.StartServer(program, filepath.Join(dir, "data"))
		if err != nil {
			return nil, err
		}
		return parley{s}, nil
	}
}

func (p parley) cpu() time.Duration { return p.server.CPU() }
func (p parley) stop()              { p.server.Kill() }

func (p parley) client(string) (turn func() error, end func(), err error) {
	c, err := load.Dial(p.server.Addr)
	if err != nil {
		return nil, nil, err
	}
	session, err := c.Create()
	if err == nil {
		_, err = c.Ask("follow", session, `{"since":0}`)
	}
	if err != nil {
		c.Close()
		return nil, nil, err
	}
	sent := 0
	return func() error {
		sent++
		return answered(c, session, sent)
	}, c.Close, nil
}

// answered sends a message and reads every event until its task is COMPLETE.
func answered(c *load.Conn, session string, n int) error {
	if _, err := c.Write("send", session, `{"client_msg_id":"`+strconv.Itoa(n)+`","text":"/say x"}`); err != nil {
		return err
	}
	for {
		f, err := c.Read()
		switch {
		case err != nil:
			return err
		case string(f.Type) == "error":
			return fmt.Errorf("send: %s", f.Raw)
		case f.Seq > 0 && string(f.Type) == "task_status" && bytes.Contains(f.Data, []byte(`"new_status":"COMPLETE"`)):
			return nil
		}
	}
}
