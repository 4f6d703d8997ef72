package assemble

import (
	"context"
	"log/slog"
	"time"

	"parley/actors"
	"parley/cmd/parley/internal/config"
	"parley/conversation"
	"parley/conversation/attached"
	"parley/conversation/blobs"
	"parley/gateway/attach"
	"parley/metrics"
)

// Files is what is attached to messages: for clients, and for the models of the engine's
// parts. It is nil for a store that keeps none.
func Files(c *config.Config, from blobs.Store, parts *actors.Deps, m *metrics.Attachments, log *slog.Logger) *attach.Files {
	if from == nil {
		return nil
	}
	parts.Files = func(ctx context.Context, key conversation.SessionKey, f attached.File) ([]byte, error) {
		return blobs.Read(ctx, from, key, f)
	}
	return &attach.Files{Settings: c.Files, Store: from, Limits: c.Gateway.Limits, Metrics: m, Log: log, Now: time.Now}
}
