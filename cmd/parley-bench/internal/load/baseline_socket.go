package load

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fasthttp/websocket"
	"github.com/valyala/fasthttp"

	"parley/cmd/parley-bench/internal/cputime"
)

// Echo is the command of the sockets' baseline: the same library as the gateway's
// with nothing around it, in a process of its own.
type Echo struct{}

// Run serves on a port of the loopback, whose address it prints, until it is killed.
//
//	/echo          sends every frame back
//	/fan?n=&size=  a frame of any socket is n frames of size bytes for all of them
//	/bulk?n=&size= answers every frame with n frames of size bytes
//
// The many frames are laid out once and go out in one write a socket: fewer
// calls of the system are not possible.
func (Echo) Run() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("http://" + listener.Addr().String()) //nolint:forbidigo // a child process talking to its parent
	var fan fanOut
	upgrader := websocket.FastHTTPUpgrader{ReadBufferSize: 1024, WriteBufferSize: 4096}
	return fasthttp.Serve(listener, func(ctx *fasthttp.RequestCtx) {
		path := string(ctx.Path())
		n, _ := strconv.Atoi(string(ctx.QueryArgs().Peek("n")))
		size, _ := strconv.Atoi(string(ctx.QueryArgs().Peek("size")))
		err := upgrader.Upgrade(ctx, func(ws *websocket.Conn) {
			switch path {
			case "/fan":
				fan.serve(ws, frames(n, size))
			case "/bulk":
				serveBulk(ws, frames(n, size))
			default:
				serveEchoes(ws)
			}
		})
		if err != nil {
			ctx.Error(err.Error(), fasthttp.StatusBadRequest)
		}
	})
}

func serveEchoes(ws *websocket.Conn) {
	for {
		kind, b, err := ws.ReadMessage()
		if err != nil || ws.WriteMessage(kind, b) != nil {
			return
		}
	}
}

// frames is n text frames of size bytes as they are on the wire.
func frames(n, size int) []byte {
	one := []byte{0x81} // final, text
	switch {
	case size < 126:
		one = append(one, byte(size))
	default: // none here is over 64 KiB
		one = binary.BigEndian.AppendUint16(append(one, 126), uint16(size))
	}
	return bytes.Repeat(append(one, make([]byte, size)...), n)
}

func serveBulk(ws *websocket.Conn, all []byte) {
	for {
		if _, _, err := ws.ReadMessage(); err != nil {
			return
		}
		if _, err := ws.NetConn().Write(all); err != nil {
			return
		}
	}
}

type fanOut struct {
	mu  sync.Mutex
	all []*websocket.Conn
}

func (f *fanOut) serve(ws *websocket.Conn, round []byte) {
	f.mu.Lock()
	f.all = append(f.all, ws)
	f.mu.Unlock()
	if ws.WriteMessage(websocket.TextMessage, []byte("in")) != nil {
		return
	}
	for {
		if _, _, err := ws.ReadMessage(); err != nil {
			return
		}
		f.mu.Lock()
		for _, to := range f.all {
			_, _ = to.NetConn().Write(round) // a socket that has gone is its own reader's business
		}
		f.mu.Unlock()
	}
}

// echoServer is this program, started again as the echo server.
type echoServer struct {
	addr string
	cmd  *exec.Cmd
}

func (e *echoServer) stop() { _ = e.cmd.Process.Kill(); _ = e.cmd.Wait() }

func (e *echoServer) cpu() time.Duration { return cputime.Of(e.cmd.Process.Pid) }

func startEcho() (*echoServer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "echo")
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	e := &echoServer{cmd: cmd}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		e.stop()
		return nil, fmt.Errorf("the echo server did not start: %w", err)
	}
	e.addr = strings.TrimPrefix(strings.TrimSpace(line), "http://")
	return e, nil
}

// dialEcho connects to a route of the echo server.
func dialEcho(addr, route string) (*websocket.Conn, error) {
	ws, _, err := dialer.Dial("ws://"+addr+route, nil)
	return ws, err
}

// echoBaseline measures the round trips of size bytes that n sockets make in d.
func echoBaseline(n, size int, d time.Duration) (result, error) {
	echo, err := startEcho()
	if err != nil {
		return result{}, err
	}
	defer echo.stop()
	payload := make([]byte, size)
	return loop{workers: n, d: d}.run(func(int) (func() (int, error), func(), error) {
		ws, err := dialEcho(echo.addr, "/echo")
		if err != nil {
			return nil, nil, err
		}
		return func() (int, error) {
			if err := ws.WriteMessage(websocket.TextMessage, payload); err != nil {
				return 0, err
			}
			_, _, err := ws.ReadMessage()
			return 1, err
		}, func() { ws.Close() }, nil
	})
}

// fanBaseline measures the deliveries of one sender to n sockets, each round of
// perRound frames of size bytes ending when all have them, and the processor time of
// the server meanwhile. every is the least time between two rounds.
func fanBaseline(n, perRound, size int, d, every time.Duration) (result, time.Duration, error) {
	echo, err := startEcho()
	if err != nil {
		return result{}, 0, err
	}
	defer echo.stop()
	rounds, route := newRounds(n), fmt.Sprintf("/fan?n=%d&size=%d", perRound, size)
	for i := range n {
		ws, err := dialEcho(echo.addr, route)
		if err != nil {
			return result{}, 0, err
		}
		defer ws.Close()
		if _, _, err := ws.ReadMessage(); err != nil { // "in"
			return result{}, 0, err
		}
		go func() {
			for {
				for range perRound {
					if _, _, err := ws.ReadMessage(); err != nil {
						rounds.fail(fmt.Errorf("socket %d: %w", i, err))
						return
					}
				}
				rounds.seen(perRound)
			}
		}()
	}
	sender, err := dialEcho(echo.addr, route)
	if err != nil {
		return result{}, 0, err
	}
	defer sender.Close()
	go func() { // the sender gets its own frames too
		for {
			if _, _, err := sender.ReadMessage(); err != nil {
				return
			}
		}
	}()
	before := echo.cpu()
	r, err := rounds.run(d, every, func() error { return sender.WriteMessage(websocket.TextMessage, []byte("go")) })
	return r, echo.cpu() - before, err
}

// bulkBaseline measures how fast n sockets get `each` frames of size bytes, all at
// once, and the processor time of the server meanwhile.
func bulkBaseline(n, each, size int) (result, time.Duration, error) {
	echo, err := startEcho()
	if err != nil {
		return result{}, 0, err
	}
	defer echo.stop()
	sockets := make([]*websocket.Conn, n)
	for i := range sockets {
		if sockets[i], err = dialEcho(echo.addr, fmt.Sprintf("/bulk?n=%d&size=%d", each, size)); err != nil {
			return result{}, 0, err
		}
		defer sockets[i].Close()
	}
	before := echo.cpu()
	r, err := allAtOnce(n, func(i int) (int, error) {
		if err := sockets[i].WriteMessage(websocket.TextMessage, []byte("go")); err != nil {
			return 0, err
		}
		for range each {
			if _, _, err := sockets[i].ReadMessage(); err != nil {
				return 0, errors.Join(errors.New("bulk"), err)
			}
		}
		return each, nil
	})
	return r, echo.cpu() - before, err
}
