package vendors

import (
	"cmp"
	"io"
	"net/http"
	"slices"
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

// Some vendors force no call while a model thinks; the others do.
func TestForcedCallsWhileThinking(t *testing.T) {
	forced := func(v *Vendor, thinking string) bool {
		var choice any = "required"
		if v.wire.path == messagesWire().path {
			choice = fields{"type": "any"}
		}
		body := fields{"tool_choice": choice}
		if thinking != "" {
			body["thinking"] = fields{"type": thinking}
		}
		return !slices.ContainsFunc(v.rules, func(r rule) bool {
			return strings.Contains(strings.Join(r(&Server{}, body), " "), "tool_choice")
		})
	}
	var refusing []string
	for _, v := range All() {
		if !forced(v, "adaptive") {
			refusing = append(refusing, v.Name)
		}
		if !forced(v, "disabled") {
			t.Errorf("%s forces no call of a model that does not think", v.Name)
		}
		if byItself := v.Name == "DeepSeek" || v.Name == "Kimi"; forced(v, "") == byItself {
			t.Errorf("%s: a model thinks without being told: %v", v.Name, byItself)
		}
	}
	if want := []string{"Anthropic", "DeepSeek", "Kimi"}; !slices.Equal(refusing, want) {
		t.Errorf("refused by %q, want %q", refusing, want)
	}
}
