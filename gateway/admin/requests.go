package admin

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"parley/gateway/service"
)

// routes are the paths of the operator's address, as metrics and the log have them; the
// profiles are one.
var routes = []string{"/livez", "/readyz", "/metrics", "/admin/backup", profilesRoute}

const profilesRoute = "/debug/pprof/*"

// routeOf is the route of a path: one of a closed set, for a path is a stranger's text.
func routeOf(path string) string {
	if strings.HasPrefix(path, strings.TrimSuffix(profilesRoute, "*")) {
		return profilesRoute
	}
	if !slices.Contains(routes, path) {
		return "other"
	}
	return path
}

// observed counts the requests of the operator's own address, and writes a line for each if
// that is wanted, as the main address does for its own.
func (a *Routes) observed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := a.Now()
		seen := &answer{ResponseWriter: w, status: http.StatusOK}
		defer func() { // also when the handler panics
			route, method, took := routeOf(r.URL.Path), r.Method, a.Now().Sub(began)
			if method != http.MethodGet && method != http.MethodPost {
				method = "other"
			}
			a.Metrics.Requests.WithLabelValues(route, method, strconv.Itoa(seen.status/100)+"xx").Inc()
			a.Metrics.RequestSeconds.WithLabelValues(route, method).Observe(took.Seconds())
			a.Requests.Write(&service.RequestLine{
				Method: method, Route: route, Status: seen.status, Took: took, In: int(max(r.ContentLength, 0)), Out: seen.bytes,
				Address: r.RemoteAddr,
			})
		}()
		next.ServeHTTP(seen, r)
	})
}

// answer notes what is answered.
type answer struct {
	http.ResponseWriter
	status, bytes int
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *answer) Write(b []byte) (int, error) {
	n, err := a.ResponseWriter.Write(b)
	a.bytes += n
	return n, err
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
