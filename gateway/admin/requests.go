package admin

import (
	"net/http"

	"parley/gateway/service"
)

// logged writes a line for each request of the administration's own address; those at the
// main address have theirs there.
func (a *Routes) logged(to http.Handler) http.Handler {
	if a.Requests == nil {
		return to
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began, seen := a.Now(), &answer{ResponseWriter: w, status: http.StatusOK}
		defer func() {
			line := service.RequestLine{
				Method: r.Method, Route: "other", Status: seen.status, Took: a.Now().Sub(began), In: int(max(r.ContentLength, 0)), Out: seen.bytes,
				Address: r.RemoteAddr,
			}
			if seen.status != http.StatusNotFound { // then it is one of the few paths that there are
				line.Route = r.URL.Path
			}
			a.Requests.Write(&line)
		}()
		to.ServeHTTP(seen, r)
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
