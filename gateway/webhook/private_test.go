package webhook

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"parley/conversation/chats"
	"parley/gateway/outbound"
	"parley/metrics"

	"github.com/prometheus/client_golang/prometheus"
)

// A private address is sent nothing, unless the hook allows it.
func TestPrivateAddresses(t *testing.T) {
	r := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		b, err := io.ReadAll(req.Body)
		if err != nil || string(b) != `{"number":7,"topic":"chat.message"}` || req.Header.Get("webhook-id") != "default:7" {
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	defer r.Close()
	d := &Deliverer{n: Needs{Metrics: metrics.NewWebhooks(prometheus.NewRegistry()), Logger: slog.New(slog.DiscardHandler), Now: time.Now}}
	for allowed, want := range map[bool]string{true: "", false: outbound.ReasonPrivate} {
		h := DefaultHook("a")
		h.URL, h.AllowPrivate = r.URL+"/token", allowed
		s := newSender(d, h, [][]byte{[]byte(strings.Repeat("k", 32))})
		defer s.poster.CloseIdle()
		got := outbound.NotTaken{}
		if f := s.post(t.Context(), chats.Entry{Number: 7, Value: []byte(`{"topic":"chat.message"}`)}); f != nil {
			got = *f
		}
		if got.Reason != want || !allowed && !strings.HasSuffix(got.Text, "allow_private = true allows it") {
			t.Errorf("allow_private = %v: %+v", allowed, got)
		}
	}
}
