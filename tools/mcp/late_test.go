package mcp

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/conversation"
)

// A server that was down at the start brings its tools when it comes, with the rules
// of the configuration; a name that is taken by then stays whose it is.
func TestServerThatComesLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, q := newPeer(), newPeer()
		q.RemoveTools("fail", "slow", "deaf")
		var down atomic.Bool
		down.Store(true)
		var joined [][]string
		o := single(p)
		o.Servers = append(o.Servers, DefaultServer("second"))
		o.Servers[0].Prefix, o.Servers[1].Prefix = "", ""
		o.Servers[0].Allow, o.Servers[0].Never, o.Servers[0].Idempotent = []string{"echo", "slow", "deaf"}, []string{"deaf"}, []string{"deaf"}
		o.Join = func(tools []conversation.Tool) error {
			var names []string
			for _, tool := range tools {
				names = append(names, tool.Spec().Name)
			}
			joined = append(joined, names)
			return nil
		}
		w := inMemory(t, o, func(int) (*sdk.Server, error) {
			if down.Load() {
				return nil, errors.New("connection refused")
			}
			return p.Server, nil
		}, always(q)).open()
		if got := names(w.Servers); !slices.Equal(got, []string{"echo"}) {
			t.Fatalf("the tools are %v", got)
		}
		down.Store(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := names(w.Servers); !slices.Equal(got, []string{"echo", "deaf", "slow"}) || len(joined) != 1 || !slices.Equal(joined[0], []string{"deaf", "slow"}) {
			t.Errorf("the tools are %v; joined %v", got, joined)
		}
		st := w.Status()
		if !slices.Equal(st[0].Tools, []string{"deaf", "slow"}) || !slices.Equal(st[0].Refused, []string{"echo: the name echo is taken by second"}) {
			t.Errorf("the status is %+v", st[0])
		}
		if deaf, slow := w.tool("deaf").Spec(), w.tool("slow").Spec(); deaf.Approval || !deaf.Idempotent || !slow.Approval || slow.Idempotent {
			t.Errorf("the specs are %+v and %+v", deaf, slow)
		}
		w.run("slow", `{"quick":true}`, "no")
		// It goes and comes back: nothing joins again.
		w.lines[0]().terminate()
		time.Sleep(time.Minute)
		synctest.Wait()
		if st := w.Status()[0]; st.Connects != 2 || len(joined) != 1 || len(w.Tools()) != 3 {
			t.Errorf("the status is %+v, joined %v", st, joined)
		}
	})
}

// Tools that may not join are not used in this run, and the status says why.
func TestToolsThatMayNotJoin(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newPeer()
		o := single(p)
		asked := 0
		o.Join = func([]conversation.Tool) error { asked++; return errors.New("there is no room") }
		w := inMemory(t, o, always(p)).open()
		p.raw(&sdk.Tool{Name: "fresh"})
		time.Sleep(time.Minute)
		synctest.Wait()
		p.raw(&sdk.Tool{Name: "fresher"})
		time.Sleep(time.Minute)
		synctest.Wait()
		st := w.Status()[0]
		if len(w.Tools()) != 4 || asked != 2 || !slices.Equal(st.Refused, []string{"fresh: there is no room", "fresher: there is no room"}) {
			t.Errorf("asked %d times; the status is %+v", asked, st)
		}
		if n := strings.Count(w.log.String(), "not all tools"); n != 2 {
			t.Errorf("the log says it %d times: %s", n, w.log)
		}
	})
}
