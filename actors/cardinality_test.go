package actors_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"

	"parley/actors"
	"parley/conversation"
	"parley/conversation/policy"
	"parley/metrics"
	"parley/models/scripted"
	"parley/persistence/persistencetest"
)

// endings is a publisher that tells of the ends of tasks.
type endings struct {
	printer
	ended *sync.WaitGroup
}

func (p endings) Publish(_ conversation.SessionKey, _ conversation.Epoch, events []conversation.Event) {
	for _, e := range events {
		if b, ok := e.Body.(conversation.TaskStatusChanged); ok && b.New.Ended() {
			p.ended.Done()
		}
	}
}

// rogue calls a tool that there is not, by another name each time, and then answers.
type rogue struct{ calls func() int }

func (rogue) Label() string { return "rogue" }

func (m rogue) Stream(_ context.Context, r conversation.Request) iter.Seq2[conversation.Output, error] {
	return func(yield func(conversation.Output, error) bool) {
		items := []conversation.Item{{Kind: conversation.ItemText, Text: "SECRET answer"}}
		if r.Entries[len(r.Entries)-1].Role == conversation.RoleUser {
			n := m.calls()
			items = []conversation.Item{{Kind: conversation.ItemCall, ID: fmt.Sprint(n), Tool: fmt.Sprintf("SECRET_tool_%d", n), Args: "{}"}}
		}
		yield(conversation.Output{Done: &conversation.ModelAnswer{Model: "SECRET-model", Items: items, Usage: conversation.Usage{InputTokens: 10, OutputTokens: 2}}}, nil)
	}
}

// The number of series does not grow with sessions, users, tenants, clients and what they or
// models say, and no label holds any of it. N-14.
func TestSeriesOfTenThousandSessions(t *testing.T) {
	talker, err := scripted.New(scripted.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	n := 0
	calls := func() int { mu.Lock(); defer mu.Unlock(); n++; return n }
	cfg := actors.DefaultConfig()
	cfg.Node = "n1"
	cfg.Rules = policy.Rules{Policy: policy.DefaultPolicy(), Agents: map[conversation.AgentName]policy.Profile{
		conversation.Coordinator: {Name: conversation.Coordinator, MayAsk: true, EngineTools: true, Model: "talker"},
		"villain":                {Name: "villain", Model: "rogue", EngineTools: true},
	}}
	registry := metrics.NewRegistry()
	counts := metrics.NewActors(metrics.With(registry, metrics.Options{
		NativeHistograms: true, TenantLabel: true, MaxTenants: 10, Prices: map[string]metrics.Price{"talker": {Input: 1}},
	}))
	var ended sync.WaitGroup
	engine, err := actors.New(cfg, actors.Deps{
		Store: persistencetest.NewMemory(), Publisher: endings{ended: &ended}, Metrics: counts,
		Models: map[string]conversation.Model{"": talker, "talker": talker, "rogue": rogue{calls}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer run(engine)()

	talk := func(from, to int) {
		for i := from; i < to; i++ {
			key := conversation.SessionKey{Tenant: conversation.TenantID(fmt.Sprint("SECRET-tenant-", i%500)), Session: conversation.SessionID(fmt.Sprint("SECRET-session-", i))}
			user := conversation.UserID(fmt.Sprint("SECRET-user-", i))
			agent := conversation.Coordinator
			if i%20 == 0 {
				agent = "villain"
			}
			ended.Add(1)
			engine.Create(key, conversation.Create{Owner: user, Agent: agent, Title: "SECRET title"}, func(key conversation.SessionKey, _ bool, err error) {
				if err != nil {
					t.Error(err)
					ended.Done()
					return
				}
				say := conversation.Say{Author: user, ClientMsgID: conversation.ClientMsgID(fmt.Sprint("SECRET-", i)), Text: fmt.Sprint("SECRET text ", i)}
				engine.Tell(key, user, say, func(_ conversation.Receipt, err error) {
					if err != nil {
						t.Error(err)
						ended.Done()
					}
				})
			})
		}
		ended.Wait()
	}
	series := func() (total, byTenant int) {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		tenants := map[string]bool{}
		for _, family := range families {
			if !strings.HasPrefix(family.GetName(), "parley_") {
				continue
			}
			for _, m := range family.GetMetric() {
				total += 1 + len(m.GetHistogram().GetBucket())
				for _, l := range m.GetLabel() {
					if l.GetName() == "tenant" {
						tenants[l.GetValue()] = true
					} else if strings.Contains(l.GetValue(), "SECRET") {
						t.Fatalf("%s has the label %s = %q", family.GetName(), l.GetName(), l.GetValue())
					}
				}
			}
		}
		return total, len(tenants)
	}
	talk(0, 1000)
	before, _ := series()
	talk(1000, 10_000)
	after, tenants := series()
	t.Logf("%d series after 1,000 sessions, %d after 10,000, of %d tenants", before, after, tenants)
	if after > before+20 { // codes and outcomes that come once under load
		t.Errorf("%d series after 1,000 sessions, %d after 10,000", before, after)
	}
	if tenants != 11 {
		t.Errorf("%d tenants have series, want 10 and the others", tenants)
	}
	if n < 500 {
		t.Errorf("models have made up %d tools only", n)
	}
}
