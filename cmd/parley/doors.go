package main

import (
	"parley/actors"
	"parley/cmd/parley/internal/config"
	"parley/conversation"
)

// doors is the engine as the gateway sees it, with each channel's own mode put
// to the messages that come through it ([channels]).
type doors struct {
	*actors.Engine
	modes map[conversation.Via]conversation.Mode
}

func newDoors(e *actors.Engine, c config.Channels) doors {
	return doors{Engine: e, modes: map[conversation.Via]conversation.Mode{
		conversation.ViaWebSocket: c.WebSocket, conversation.ViaHTTP: c.HTTP,
	}}
}

// Tell is the engine's.
func (d doors) Tell(key conversation.SessionKey, as conversation.UserID, c conversation.Command, done func(conversation.Receipt, error)) {
	if say, ok := c.(conversation.Say); ok && say.ChannelMode == conversation.ModeDefault {
		say.ChannelMode = d.modes[say.Via]
		c = say
	}
	d.Engine.Tell(key, as, c, done)
}
