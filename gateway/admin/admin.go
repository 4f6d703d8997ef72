package admin

import (
	"context"
	"crypto/rand"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"parley/conversation"
	"parley/gateway/protocol"
	"parley/gateway/service"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Guard refuses a request by its Host, Origin and Sec-Fetch-Site; nil = it may pass.
type Guard func(host, origin, site string) *conversation.Error

// Routes are the operator's. One of them serves all addresses, so that one profile
// runs at a time.
type Routes struct {
	*service.Services
	metrics     http.Handler // nil = no /metrics
	commandLine []string     // what /debug/pprof/cmdline shows
	profiling   chan struct{}
}

// New makes the routes. gatherer is what /metrics shows, nil = no /metrics; commandLine
// must be without secrets.
func New(s *service.Services, gatherer prometheus.Gatherer, commandLine []string) *Routes {
	a := &Routes{Services: s, commandLine: commandLine, profiling: make(chan struct{}, 1)}
	if gatherer != nil {
		a.metrics = promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{
			EnableOpenMetrics: true, // exemplars travel in it alone
			ErrorHandling:     promhttp.ContinueOnError, MaxRequestsInFlight: maxScrapes, Timeout: answerTime,
		})
	}
	return a
}

const (
	maxScrapes = 8                // of /metrics at a time
	answerTime = 30 * time.Second // in which a client must have read an answer
)

// Has says which of the paths there are: /metrics and /admin/backup may be missing.
func (a *Routes) Has(path string) bool {
	switch path {
	case "/metrics":
		return a.metrics != nil
	case "/admin/backup":
		return a.Backup != nil
	}
	return true
}

// Handler serves all routes behind a guard. With needsKey a request must carry a
// credential with the scope admin.
func (a *Routes) Handler(guard Guard, needsKey bool) http.Handler {
	mux := http.NewServeMux()
	if a.Backup != nil {
		mux.HandleFunc("POST /admin/backup", a.backup)
	}
	if a.metrics != nil {
		mux.Handle("GET /metrics", a.metrics)
	}
	a.profiles(mux)
	open := http.NewServeMux() // for those who only watch over the process
	open.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { status(w, http.StatusOK, "alive") })
	open.HandleFunc("GET /readyz", a.readyz)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("X-Frame-Options", "DENY")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
		setWriteDeadline(w, answerTime)
		if refused := guard(r.Host, r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")); refused != nil {
			a.problem(w, r, refused)
			return
		}
		if _, pattern := open.Handler(r); pattern != "" {
			open.ServeHTTP(w, r)
			return
		}
		who, err := a.operator(r, needsKey)
		if err != nil {
			a.problem(w, r, a.Refusal(err))
			return
		}
		if _, pattern := mux.Handler(r); pattern == "" {
			a.problem(w, r, conversation.Errorf(conversation.NotFound, "there is nothing here"))
			return
		}
		ctx := context.WithValue(r.Context(), operatorKey{}, who)
		if main, ok := r.Context().(mainRequest); ok { // its own end is the server's, and not safe to ask for then
			ctx = context.WithValue(context.WithoutCancel(ctx), mainKey{}, main)
		}
		mux.ServeHTTP(w, r.WithContext(ctx))
	})
}

// Server serves Handler on an address of its own.
func (a *Routes) Server(guard Guard, needsKey bool) *http.Server {
	return &http.Server{
		Handler: a.observed(a.Handler(guard, needsKey)), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second,
		IdleTimeout: 60 * time.Second, MaxHeaderBytes: 16 << 10,
	}
}

// setWriteDeadline bounds how long a client may take to read; the main address has its own bound.
func setWriteDeadline(w http.ResponseWriter, left time.Duration) {
	at := time.Time{}
	if left > 0 {
		at = time.Now().Add(left)
	}
	_ = http.NewResponseController(w).SetWriteDeadline(at)
}

// operatorKey is the key of a request's operator, a *service.Principal, in its context.
type operatorKey struct{}

// operator is who asks. Where no key is needed, who brings none is the operator of this
// machine, without a name.
func (a *Routes) operator(r *http.Request, needsKey bool) (*service.Principal, error) {
	credential := credentialOf(r)
	if !needsKey && credential.Token == "" && a.Auth.Mode() != "none" {
		return &service.Principal{}, nil
	}
	who, err := a.Auth.Authenticate(r.Context(), credential)
	if err == nil && !who.May(service.ScopeAdmin) {
		err = conversation.Errorf(conversation.Forbidden, "this needs the scope %s", service.ScopeAdmin)
	}
	return who, err
}

func credentialOf(r *http.Request) service.Credential {
	c := service.Credential{Address: r.RemoteAddr}
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		c.Address = host
	}
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "bearer") {
		c.Token = strings.TrimSpace(token)
	}
	return c
}

func status(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(`{"status":"` + text + `"}`))
}

func (a *Routes) readyz(w http.ResponseWriter, r *http.Request) {
	switch {
	case a.Connections.Draining():
		a.problem(w, r, service.ErrDraining)
	case a.Sessions.Ready() != nil:
		a.problem(w, r, conversation.Errorf(conversation.Unavailable, "the engine takes no work now"))
	case a.Sessions.Health() != nil:
		status(w, http.StatusOK, "degraded")
	default:
		status(w, http.StatusOK, "ready")
	}
}

// problem answers with an error, as application/problem+json.
func (a *Routes) problem(w http.ResponseWriter, r *http.Request, e *conversation.Error) {
	code := protocol.StatusOf(e.Code)
	id := rand.Text()[:16]
	w.Header().Set("X-Request-Id", id)
	w.Header().Set("Content-Type", "application/problem+json")
	if code == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((e.RetryAfter+time.Second-1)/time.Second)))
	}
	w.WriteHeader(code)
	_, _ = w.Write(protocol.AppendProblem(nil, e, code, r.URL.Path, id))
}
