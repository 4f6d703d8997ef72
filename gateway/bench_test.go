package gateway

import (
	"context"
	"testing"

	"parley/conversation"
	"parley/gateway/gatewaytest"
	"parley/metrics"

	"github.com/prometheus/client_golang/prometheus"
)

// turn is what a simple turn publishes: three commits, seven events.
func turn(first conversation.Seq) [][]conversation.Event {
	at := gatewaytest.Epoch
	commits := [][]conversation.Event{
		{
			{Task: "t1-s1", Body: conversation.MessageAccepted{Message: "m1-s1", ClientMsgID: "client-1", Author: "local", Text: "What's the weather like in Berlin today?", Disposition: conversation.Started, Via: conversation.ViaWebSocket}},
			{Task: "t1-s1", Body: conversation.TaskStatusChanged{Trigger: "m1-s1", Old: conversation.TaskQueued, New: conversation.TaskRunning}},
			{Task: "t1-s1", Body: conversation.StepStarted{Step: 1, Attempt: 1, Agent: "coordinator", Read: []conversation.MessageID{"m1-s1"}}},
		},
		{
			{Task: "t1-s1", Body: conversation.StepFinished{Step: 1, Attempt: 1, Outcome: conversation.StepOK, Decisions: []conversation.Decision{conversation.DecisionAnswer}, Model: "scripted"}},
			{Task: "t1-s1", Body: conversation.Response{Part: conversation.Part{Message: "p1-s1", Source: "m1-s1", Text: "It is sunny, 15 °C, with a light wind from the west.", InReplyTo: "m1-s1"}}},
			{Task: "t1-s1", Body: conversation.MessageResolved{Message: "m1-s1", How: conversation.ResolvedAnswered}},
			{Task: "t1-s1", Body: conversation.TaskStatusChanged{Trigger: "m1-s1", Old: conversation.TaskRunning, New: conversation.TaskComplete}},
		},
	}
	for _, c := range commits {
		for i := range c {
			c[i].Seq, c[i].At = first, at
			first++
		}
	}
	return commits
}

// BenchmarkPublish is what a turn costs from the engine's call to a queue.
func BenchmarkPublish(b *testing.B) {
	m := metrics.NewGateway(prometheus.NewRegistry())
	hub := NewHub(m)
	key := gatewaytest.Key("s1")
	out := newOutbox(DefaultConfig().Limits, m)
	f := &feed{out: out, key: key, state: feedLive, synced: true}
	hub.add(f)
	scratch := make([]byte, 0, writeBytes)
	commits := turn(1)
	b.ReportAllocs()
	for b.Loop() {
		for _, c := range commits {
			f.cursor = c[0].Seq - 1
			hub.Publish(key, c)
		}
		out.take(scratch)
	}
}

// BenchmarkTurn is a turn over a real socket: the command in, its answer and
// seven events out, as fast as one client can take them.
func BenchmarkTurn(b *testing.B) {
	m := metrics.NewGateway(prometheus.NewRegistry())
	hub := NewHub(m)
	sessions := &instant{hub: hub, key: gatewaytest.Key("s1"), head: 1}
	cfg := DefaultConfig()
	cfg.Listen, cfg.Limits.CommandsPerSecond = "127.0.0.1:0", 0
	server, err := New(cfg, Deps{Sessions: sessions, Hub: hub, Metrics: m})
	if err != nil {
		b.Fatal(err)
	}
	addr, err := server.Listen()
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	defer func() { stop(); <-ended }()
	client := gatewaytest.Connect(b, addr.String())
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

type engine = Sessions

// instant is an engine that costs nothing.
type instant struct {
	engine
	hub  *Hub
	key  conversation.SessionKey
	head conversation.Seq
}

func (s *instant) Tell(key conversation.SessionKey, _ conversation.UserID, _ conversation.Command, done func(conversation.Receipt, error)) {
	done(conversation.Receipt{Message: "m1-s1", Seq: s.head + 1, Disposition: conversation.Started, Task: "t1-s1"}, nil)
	for _, c := range turn(s.head + 1) {
		s.hub.Publish(key, c)
	}
	s.head += 7
}

func (s *instant) View(_ conversation.SessionKey, _ conversation.UserID, done func(conversation.View, error)) {
	done(conversation.View{Key: s.key, Head: s.head, Owner: "local"}, nil)
}
