package gateway_test

import (
	"context"
	"testing"

	"parley/conversation"
	"parley/gateway"
	"parley/gateway/gatewaytest"
	"parley/gateway/waystest"
)

// BenchmarkTurn is a turn over a real socket: the command in, its answer and
// seven events out, as fast as one client can take them.
func BenchmarkTurn(b *testing.B) {
	r := waystest.Begin(b, func(c *gateway.Config, d *gateway.Deps) {
		c.Limits.CommandsPerSecond = 0
		d.Sessions = &instant{hub: d.Hub, key: gatewaytest.Key("s1"), head: 1}
	})
	ctx := b.Context()
	client := gatewaytest.Connect(b, r.Addr)
	client.Do("follow", "s1", map[string]any{"since": 1})
	conn := client.WS
	frame := []byte(gatewaytest.Command("send", "1", "s1", map[string]any{"client_msg_id": "client-1", "text": "What's the weather like in Berlin today?"}))
	_, _, _ = conn.Read(ctx) // synced
	b.ReportAllocs()
	const window = 64 // turns in flight
	inFlight := make(chan struct{}, window)
	go func() {
		for range b.N {
			inFlight <- struct{}{}
			if conn.Write(ctx, 1, frame) != nil {
				return
			}
		}
	}()
	b.ResetTimer()
	for range b.N {
		for range 8 {
			if _, _, err := conn.Read(ctx); err != nil {
				b.Fatal(err)
			}
		}
		<-inFlight
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "turns/s")
}

// instant is an engine that costs nothing.
type instant struct {
	engine
	hub  *gateway.Hub
	key  conversation.SessionKey
	head conversation.Seq
}

func (s *instant) Tell(key conversation.SessionKey, _ conversation.UserID, _ conversation.Command, done func(conversation.Receipt, error)) {
	done(conversation.Receipt{Message: "m1-s1", Seq: s.head + 1, Disposition: conversation.Started, Task: "t1-s1"}, nil)
	for _, c := range gatewaytest.Turn(s.head + 1) {
		s.hub.Publish(key, 1, c)
	}
	s.head += 7
}

func (s *instant) View(_ conversation.SessionKey, _ conversation.UserID, done func(conversation.View, error)) {
	done(conversation.View{Key: s.key, Head: s.head, Owner: "local"}, nil)
}

func (s *instant) Summary(context.Context, conversation.SessionKey) (conversation.Summary, error) {
	return conversation.Summary{Key: s.key, Owner: "local"}, nil
}
