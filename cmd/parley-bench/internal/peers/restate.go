package peers

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// restate is a Restate server and the service that it calls, each in a process.
type restate struct {
	server, service *process
	ingress         string
	http            *http.Client
	sessions        atomic.Int64
}

// startRestate starts both with fresh data and makes the one known to the other.
// Restate's settings are its own, but for addresses of the loopback, and for what
// it would report and log.
func startRestate(server, service string) func(context.Context, string) (contender, error) {
	return func(ctx context.Context, dir string) (contender, error) {
		ports, err := freePorts(3)
		if err != nil {
			return nil, err
		}
		ingress, admin := "127.0.0.1:"+ports[0], "127.0.0.1:"+ports[1]
		r := &restate{ingress: "http://" + ingress, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}, Timeout: time.Minute}}
		var addr string
		if r.service, addr, err = startListening(service); err != nil {
			return nil, err
		}
		r.server, err = start(dir, server, []string{
			"RESTATE_LISTEN_MODE=tcp", "RESTATE_BIND_IP=127.0.0.1", "RESTATE_ADVERTISED_HOST=127.0.0.1", "RESTATE_BIND_PORT=" + ports[2],
			"RESTATE_INGRESS__BIND_ADDRESS=" + ingress, "RESTATE_ADMIN__BIND_ADDRESS=" + admin, "RESTATE_ADMIN__DISABLE_WEB_UI=true",
			"RESTATE_BASE_DIR=" + dir, "RESTATE_LOG_FILTER=warn", "RESTATE_DISABLE_TELEMETRY=true", "DO_NOT_TRACK=1",
		}, "--no-logo")
		if err != nil {
			r.service.kill()
			return nil, err
		}
		err = r.until(ctx, http.MethodGet, "http://"+admin+"/health", "")
		if err == nil {
			err = r.until(ctx, http.MethodPost, "http://"+admin+"/deployments", `{"uri":"http://`+addr+`"}`)
		}
		if err == nil { // its first call waits until its logs are there
			err = r.until(ctx, http.MethodPost, r.ingress+"/Conversation/first/Message", `"/say x"`)
		}
		if err != nil {
			r.stop()
			return nil, fmt.Errorf("%w\n%s", err, r.server.said())
		}
		return r, nil
	}
}

// until repeats a request until it is answered well.
func (r *restate) until(ctx context.Context, method, url, body string) error {
	for began := time.Now(); ; {
		err := r.ask(ctx, method, url, body)
		if err == nil || time.Since(began) > 20*time.Second {
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (r *restate) ask(ctx context.Context, method, url, body string) error {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := r.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: %s: %.200s", method, url, response.Status, answer)
	}
	return err
}

func (r *restate) cpu() time.Duration { return r.server.cpu() + r.service.cpu() }

func (r *restate) stop() {
	r.server.kill()
	r.service.kill()
}

func (r *restate) client(handler string) (turn func() error, end func(), err error) {
	url := r.ingress + "/Conversation/" + strconv.FormatInt(r.sessions.Add(1), 10) + "/" + handler
	return func() error { return r.ask(context.Background(), http.MethodPost, url, `"/say x"`) }, func() {}, nil
}

// freePorts are ports of the loopback that nobody listens on now.
func freePorts(n int) ([]string, error) {
	var ports []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	}
	return ports, nil
}
