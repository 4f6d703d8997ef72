package admin

import (
	"context"
	"errors"
	"math"
	"net"
	"net/http"
	"net/http/pprof"
	"strconv"
	"strings"
	"time"

	"parley/conversation"
	"parley/gateway/service"
)

// MaxSeconds is the longest that a profile or a trace may run.
const MaxSeconds = 60

// profiles registers pprof.
func (a *Routes) profiles(mux *http.ServeMux) {
	mux.HandleFunc("GET /debug/pprof/", a.timed(0, pprof.Index)) // also /debug/pprof/NAME
	mux.HandleFunc("GET /debug/pprof/profile", a.timed(30, pprof.Profile))
	mux.HandleFunc("GET /debug/pprof/trace", a.timed(1, pprof.Trace))
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/cmdline", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte(strings.Join(a.commandLine, "\x00")))
	})
}

// timed runs a profile that takes as many seconds as its request says, or without a word
// otherwise; 0 = it is done at once.
func (a *Routes) timed(otherwise float64, profile http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		seconds, err := secondsOf(r, otherwise)
		switch {
		case err != nil:
			a.problem(w, r, conversation.Errorf(conversation.BadRequest, "seconds must be a number above 0"))
			return
		case seconds == 0:
			profile(w, r)
			return
		case seconds > MaxSeconds:
			a.Metrics.Refused.WithLabelValues("profile_seconds").Inc()
			a.problem(w, r, conversation.Errorf(conversation.BadRequest, "seconds must be at most %d", MaxSeconds))
			return
		}
		select {
		case a.profiling <- struct{}{}:
			defer func() { <-a.profiling }()
		default:
			a.Metrics.Refused.WithLabelValues("profiles").Inc()
			a.problem(w, r, conversation.Errorf(conversation.Conflict, "another profile is being taken; one runs at a time"))
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		job := &service.Job{Cancel: cancel} // it ends with the server, too
		defer a.Connections.Remove(job)
		if !a.Connections.Add(job) || a.Connections.Draining() {
			a.problem(w, r, service.ErrDraining)
			return
		}
		defer watch(r, cancel)()
		setWriteDeadline(w, time.Duration(seconds*float64(time.Second))+answerTime)
		profile(w, r.WithContext(ctx))
	}
}

// errNoSeconds refuses a number of seconds that is none.
var errNoSeconds = errors.New("no number of seconds")

func secondsOf(r *http.Request, otherwise float64) (float64, error) {
	text := r.URL.Query().Get("seconds")
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || n <= 0 {
		return 0, errNoSeconds
	}
	return n, nil
}

// mainKey is the key of the mainRequest in a request's context.
type mainKey struct{}

// mainRequest is the context of a request that came in at the main address, whose HTTP
// library does not notice that a client has gone.
type mainRequest interface {
	Conn() net.Conn
	SetConnectionClose()
}

// watch calls gone when the client of a request at the main address goes away, until
// stop is called. Of others the request's context says it.
func watch(r *http.Request, gone func()) (stop func()) {
	c, ok := r.Context().Value(mainKey{}).(mainRequest)
	if !ok {
		return func() {}
	}
	c.SetConnectionClose() // the byte that is read here must not be missed by a next request
	conn := c.Conn()
	_ = conn.SetReadDeadline(time.Time{})
	ended := make(chan struct{})
	go func() { // ends with the connection, or with stop
		defer close(ended)
		var b [1]byte
		if _, err := conn.Read(b[:]); err != nil { // a byte is a request that came too early: the client is there
			gone()
		}
	}()
	return func() {
		_ = conn.SetReadDeadline(time.Now())
		<-ended
	}
}
