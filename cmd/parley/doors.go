package main

import (
	"context"
	"iter"

	"parley/actors"
	"parley/conversation"
)

// doors is the engine as the gateway sees it, with each channel's own mode put
// to the messages that come through it ([channels]).
type doors struct {
	*actors.Engine
	modes map[conversation.Via]conversation.Mode
}

func newDoors(e *actors.Engine, c ChannelsConfig) doors {
	d := doors{Engine: e, modes: map[conversation.Via]conversation.Mode{}}
	d.modes[conversation.ViaWebSocket], _ = conversation.ParseMode(c.WebSocket.Mode)
	d.modes[conversation.ViaHTTP], _ = conversation.ParseMode(c.HTTP.Mode)
	return d
}

// Tell is the engine's.
func (d doors) Tell(key conversation.SessionKey, as conversation.UserID, c conversation.Command, done func(conversation.Receipt, error)) {
	if say, ok := c.(conversation.Say); ok && say.ChannelMode == conversation.ModeDefault {
		say.ChannelMode = d.modes[say.Via]
		c = say
	}
	d.Engine.Tell(key, as, c, done)
}

// whole is a model whose answers are not streamed (model.stream = false).
type whole struct{ conversation.Model }

// Stream is the model's, without deltas.
func (w whole) Stream(ctx context.Context, r conversation.Request) iter.Seq2[conversation.Output, error] {
	r.Stream = false
	return w.Model.Stream(ctx, r)
}
