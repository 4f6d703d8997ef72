package vendors

import (
	"cmp"
	"io"
	"net/http"
	"strings"
	"testing"
)

// Every stand-in lists its models to who has its key, and to nobody else; and it notes why
// it refused something.
func TestStandInsListTheirModels(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range All() {
		if seen[v.Name] || len(v.Models) == 0 {
			t.Errorf("%s is there twice, or has no model", v.Name)
		}
		seen[v.Name] = true
		s := Start(t, v)
		get := func(key string) (int, string) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+cmp.Or(v.wire.list, "/models"), nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header = http.Header{"Authorization": {"Bearer " + key}, "Api-Key": {key}, "Anthropic-Version": {"2026-10-21"}}
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = res.Body.Close() }()
			body, _ := io.ReadAll(res.Body)
			return res.StatusCode, string(body)
		}
		if status, body := get(Key); status != http.StatusOK || !strings.Contains(body, v.Models[0]) {
			t.Errorf("%s: %d %s", v.Name, status, body)
		}
		want, keyed := http.StatusOK, v.key != nil && !v.shown
		if keyed {
			want = http.StatusUnauthorized
		}
		if status, _ := get("another"); status != want || (len(s.Refused()) == 1) != keyed {
			t.Errorf("%s without its key: %d, noted %q", v.Name, status, s.Refused())
		}
	}
}
