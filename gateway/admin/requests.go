package admin

import (
	"net/http"
	"slices"
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
		defer func() {
			failed := recover() // the library answers nothing then
			if failed != nil {
				seen.status = http.StatusInternalServerError
			}
			a.Answered(&service.RequestLine{
				ID: w.Header().Get("X-Request-Id"), Method: r.Method, Route: routeOf(r.URL.Path), Status: seen.status, Took: a.Now().Sub(began),
				In: int(max(r.ContentLength, 0)), Out: seen.bytes, Address: credentialOf(r).Address,
			})
			if failed != nil {
				panic(failed)
			}
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
