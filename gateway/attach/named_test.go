package attach_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/conversation"
	"parley/gateway/attach"
	"parley/gateway/protocol"
	"parley/metrics"
	"parley/persistence/blobstest"
)

// A file that has nearly waited for too long gets more time when a message names it: the
// message is stored in a moment, and a sweep in between must not take it.
func TestAFileIsRenewedWhenItIsNamed(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	store := blobstest.NewBlobMaps(blobstest.BlobHost{
		Mutex: &sync.Mutex{}, Ready: func(ctx context.Context) error { return ctx.Err() },
		Exists: func(conversation.SessionKey) bool { return true }, Room: func() error { return nil },
	})
	f := &attach.Files{
		Settings: attach.Settings{MaxAge: time.Hour}, Store: store, Limits: protocol.Limits{AttachmentBytes: 10},
		Metrics: metrics.NewAttachments(prometheus.NewRegistry()), Now: func() time.Time { return now },
	}
	key := conversation.SessionKey{Tenant: "acme", Session: "s"}
	if _, _, err := f.Upload(t.Context(), key, attach.Upload{Name: "a", Type: "text/plain", Body: make([]byte, 11)}); !isCode(err, conversation.TooLarge) {
		t.Errorf("11 bytes: %v", err)
	}
	file, _, err := f.Upload(t.Context(), key, attach.Upload{Name: "a", Type: "text/plain", Body: []byte("hi")})
	if err != nil {
		t.Fatal(err)
	}
	name := func() error {
		_, err := f.Named(t.Context(), key, []protocol.NamedFile{{Hash: file.Hash}})
		return err
	}
	now = now.Add(54 * time.Minute)
	if err := name(); err != nil {
		t.Fatal(err)
	}
	now = now.Add(10 * time.Minute)
	f.Sweep(t.Context())
	find := func(sees bool) error {
		_, err := f.Find(t.Context(), attach.Wanted{Tenant: "acme", Hash: file.Hash, Session: "s", Sees: func(conversation.SessionKey) bool { return sees }})
		return err
	}
	if err := find(true); err != nil {
		t.Errorf("it was taken away ten minutes after it was named: %v", err)
	}
	if err := find(false); !isCode(err, conversation.NotFound) {
		t.Errorf("who may not read the session finds it: %v", err)
	}
	now = now.Add(2 * time.Hour)
	f.Sweep(t.Context())
	if err := name(); !isCode(err, conversation.NotFound) {
		t.Errorf("what no message has stored stays: %v", err)
	}
}

func isCode(err error, code conversation.Code) bool {
	var e *conversation.Error
	return errors.As(err, &e) && e.Code == code
}
