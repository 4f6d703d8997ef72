package admin

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// routes are the paths of the operator's address, as metrics have them; the profiles are one.
var routes = []string{"/livez", "/readyz", "/metrics", "/admin/backup", profilesRoute}

const profilesRoute = "/debug/pprof/*"

// measured counts the requests of the operator's own address, as those of the main one are.
func (a *Routes) measured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := a.Now()
		answer := &answer{ResponseWriter: w, status: http.StatusOK}
		defer func() { // also when the handler panics
			route, method := r.URL.Path, r.Method
			if strings.HasPrefix(route, strings.TrimSuffix(profilesRoute, "*")) {
				route = profilesRoute
			}
			if !slices.Contains(routes, route) {
				route = "other"
			}
			if method != http.MethodGet && method != http.MethodPost {
				method = "other"
			}
			a.Metrics.Requests.WithLabelValues(route, method, strconv.Itoa(answer.status/100)+"xx").Inc()
			a.Metrics.RequestSeconds.WithLabelValues(route, method).Observe(a.Now().Sub(began).Seconds())
		}()
		next.ServeHTTP(answer, r)
	})
}
