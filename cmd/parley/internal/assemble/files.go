package assemble

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"parley/actors"
	"parley/cmd/parley/internal/config"
	"parley/conversation"
	"parley/conversation/attached"
	"parley/conversation/blobs"
	"parley/gateway/attach"
	"parley/metrics"
	"parley/models/anthropic"
	"parley/models/command"
	"parley/models/given"
	"parley/models/openai"
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

// attachments says what the model of a name is given of what is attached to messages. The
// scripted one, and an agent whose prompt must fit into an argument, are told of it only.
func attachments(c *config.Config, name string, log *slog.Logger) given.Options {
	b := c.Block(name)
	if b == nil || b.Provider == config.ProviderScripted || b.Command.PromptVia == command.PromptArg {
		return given.Options{}
	}
	context := c.Policy().Context
	holds := context.Budget
	if request := b.Holds().Request(); b.Context > 0 && (holds == 0 || request < holds) {
		holds = request
	}
	limits := context.Files(holds)
	o := given.Options{
		Sees: slices.Contains(b.Sees, config.Image), Picture: openai.MaxPicture,
		Pictures: limits.Pictures, PictureBytes: int64(limits.PictureBytes), Text: limits.Text, Texts: int64(limits.Texts), Log: log,
	}
	if b.Provider == config.ProviderAnthropic {
		o.Picture = anthropic.MaxPicture
	}
	return o
}
