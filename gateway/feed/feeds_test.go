package feed_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"parley/conversation"
	"parley/conversation/chats"
	"parley/gateway/feed"
	"parley/gateway/gatewaytest"
	"parley/metrics"

	"github.com/prometheus/client_golang/prometheus"
)

const poll = time.Second

// bench is a store and what reads its feeds.
type bench struct {
	t        *testing.T
	store    *gatewaytest.Chats
	feeds    *feed.Feeds
	registry *prometheus.Registry
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, store: gatewaytest.NewChats(), registry: prometheus.NewRegistry()}
	b.feeds = feed.New(b.store, feed.Polling{Poll: poll}, metrics.NewFeeds(b.registry), nil)
	t.Cleanup(b.feeds.Close)
	return b
}

// alone is how many entries watches have read by themselves.
func (b *bench) alone() (n float64) {
	families, err := b.registry.Gather()
	if err != nil {
		b.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "parley_feed_entries_read_total" && m.GetLabel()[0].GetValue() == "alone" {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

// add adds entries to a feed as another node does, or as this one.
func (b *bench) add(store chats.Store, tenant conversation.TenantID, n int, session conversation.SessionID) {
	b.t.Helper()
	for range n {
		at, err := b.store.Feed(b.t.Context(), tenant)
		if err != nil {
			b.t.Fatal(err)
		}
		value := fmt.Appendf(nil, `{"topic":"chat.message","project":%q,"n":%d}`, tenant, at.Last+1)
		if err := store.Save(b.t.Context(), tenant, nil, []chats.Entry{{At: time.Now(), Session: session, Value: value}}); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *bench) open(tenant conversation.TenantID, after *chats.Number) (*feed.Watch, feed.Position) {
	b.t.Helper()
	w, p, err := b.feeds.Open(b.t.Context(), tenant, after)
	if err != nil {
		b.t.Fatal(err)
	}
	return w, p
}

// numbers reads until n entries have come.
func numbers(t *testing.T, w *feed.Watch, n int) (all []chats.Number) {
	t.Helper()
	for len(all) < n {
		page, err := w.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page {
			all = append(all, e.Number)
		}
	}
	return all
}

// silent fails if something comes within two polls.
func silent(t *testing.T, w *feed.Watch) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*poll)
	defer cancel()
	if page, err := w.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("there came %v, %v", page, err)
	}
}

func from(first, n int) (all []chats.Number) {
	for i := range n {
		all = append(all, chats.Number(first+i))
	}
	return all
}

// Where a watch begins, and what it says of that.
func TestWhereAWatchBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.add(b.store, "acme", 10, "")
		if err := b.store.Trim(t.Context(), "acme", 4); err != nil {
			t.Fatal(err)
		}
		for _, x := range []struct {
			name  string
			after *chats.Number
			want  feed.Position
		}{
			{"from now on", nil, feed.Position{Head: 10, First: 11}},
			{"behind one", gatewaytest.Ptr(chats.Number(7)), feed.Position{Head: 10, First: 8, Resumed: true}},
			{"behind the last", gatewaytest.Ptr(chats.Number(10)), feed.Position{Head: 10, First: 11, Resumed: true}},
			{"behind the last that is gone", gatewaytest.Ptr(chats.Number(4)), feed.Position{Head: 10, First: 5, Resumed: true}},
			{"behind one that is gone", gatewaytest.Ptr(chats.Number(3)), feed.Position{Head: 10, First: 5, Reason: "trimmed"}},
			{"from the first one on", gatewaytest.Ptr(chats.Number(0)), feed.Position{Head: 10, First: 5, Reason: "trimmed"}},
			{"ahead", gatewaytest.Ptr(chats.Number(11)), feed.Position{Head: 10, First: 11, Reason: "ahead"}},
		} {
			w, p := b.open("acme", x.after)
			if p != x.want {
				t.Errorf("%s: %+v, want %+v", x.name, p, x.want)
			}
			if n := 11 - int(x.want.First); n > 0 {
				if got := numbers(t, w, n); !slices.Equal(got, from(int(x.want.First), n)) {
					t.Errorf("%s: %v", x.name, got)
				}
			}
			silent(t, w)
			w.Close()
		}
		if _, p := b.open("nobody", nil); p != (feed.Position{First: 1}) {
			t.Errorf("an empty feed: %+v", p)
		}
	})
}

// What another node adds is seen within a poll, what this one adds at once; and one read
// serves all.
func TestLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var watches []*feed.Watch
		for range 20 {
			w, _ := b.open("acme", nil)
			watches = append(watches, w)
		}
		for i, store := range []chats.Store{b.store, b.feeds.Store()} {
			began := time.Now()
			b.add(store, "acme", 1, "")
			for _, w := range watches {
				if got := numbers(t, w, 1); got[0] != chats.Number(i+1) {
					t.Errorf("%v", got)
				}
			}
			took := time.Since(began)
			if i == 0 && (took == 0 || took > poll) || i == 1 && took != 0 {
				t.Errorf("it took %v", took)
			}
		}
		if n := b.store.Reads(); n != 2 {
			t.Errorf("20 watches of 2 entries have read %d times", n)
		}
	})
}

// Who is slow holds up nobody and holds one page; it reads the rest by itself. Each entry
// comes once and in order, whoever has read it.
func TestSlowWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		slow, _ := b.open("acme", nil)
		quick, _ := b.open("acme", nil)
		for i := range 100 {
			b.add(b.feeds.Store(), "acme", 1, "")
			if got := numbers(t, quick, 1); got[0] != chats.Number(i+1) {
				t.Fatalf("%v", got)
			}
		}
		if n := slow.Behind(); n != 100 {
			t.Errorf("%d behind", n)
		}
		if got := numbers(t, slow, 100); !slices.Equal(got, from(1, 100)) {
			t.Errorf("%v", got)
		}
		if n := slow.Behind(); n != 0 {
			t.Errorf("%d behind", n)
		}
		if n := b.alone(); n != 99 { // the first was handed over
			t.Errorf("%v were read alone", n)
		}
		b.add(b.feeds.Store(), "acme", 1, "")
		if got := numbers(t, slow, 1); got[0] != 101 {
			t.Errorf("%v", got)
		}
	})
}

// An entry of an erased session is not shown, also when it is the last one, and is no reason
// to wait for it.
func TestErasedEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		late, _ := b.open("acme", nil)
		b.add(b.store, "acme", 2, "s1")
		b.add(b.store, "acme", 40, "s2")
		b.add(b.store, "acme", 2, "s1")
		b.store.Erase(conversation.SessionKey{Tenant: "acme", Session: "s1"})
		if got := numbers(t, late, 40); !slices.Equal(got, from(3, 40)) {
			t.Errorf("%v", got)
		}
		silent(t, late)
		if n := late.Behind(); n != 0 {
			t.Errorf("%d behind", n)
		}
		b.add(b.store, "acme", 1, "s3")
		if got := numbers(t, late, 1); got[0] != 45 {
			t.Errorf("%v", got)
		}
	})
}

// While the store cannot be read the watches wait, and nothing is lost.
func TestStoreOutOfReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		live, _ := b.open("acme", nil)
		b.add(b.store, "acme", 3, "")
		behind, _ := b.open("acme", gatewaytest.Ptr(chats.Number(0)))
		b.store.Fail(errors.New("the database is away"))
		silent(t, live)
		silent(t, behind)
		if _, _, err := b.feeds.Open(t.Context(), "acme", nil); err == nil {
			t.Error("a watch began without a store")
		}
		b.store.Fail(nil)
		for _, w := range []*feed.Watch{live, behind} {
			if got := numbers(t, w, 3); !slices.Equal(got, from(1, 3)) {
				t.Errorf("%v", got)
			}
		}
		b.add(b.store, "acme", 1, "")
		late, _ := b.open("acme", gatewaytest.Ptr(chats.Number(0)))
		b.store.Fail(conversation.ErrClosed)
		if _, err := late.Next(t.Context()); !errors.Is(err, conversation.ErrClosed) {
			t.Errorf("of a store that is closed there came %v", err)
		}
	})
}

// gated is a store whose next reads of entries wait, each for a value of a channel of its own,
// before they look and before they answer.
type gated struct {
	chats.Store
	gates chan chan struct{}
}

func (g *gated) Entries(ctx context.Context, tenant conversation.TenantID, after chats.Number, limit int) ([]chats.Entry, error) {
	select {
	case gate := <-g.gates:
		gate <- struct{}{}
		page, err := g.Store.Entries(ctx, tenant, after, limit)
		gate <- struct{}{}
		return page, err
	default:
		return g.Store.Entries(ctx, tenant, after, limit)
	}
}

// The poller and a watch that read the same entries at the same time: they come once.
func TestReadByBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		store := &gated{b.store, make(chan chan struct{}, 2)}
		b.feeds = feed.New(store, feed.Polling{Poll: poll}, metrics.NewFeeds(prometheus.NewRegistry()), nil)
		defer b.feeds.Close()
		first, _ := b.open("acme", nil)
		poller, watch := make(chan struct{}), make(chan struct{})
		store.gates <- poller
		store.gates <- watch
		b.add(store, "acme", 1, "")
		b.feeds.Changed("acme")
		synctest.Wait() // the poller is about to look at what is behind 0
		b.add(store, "acme", 1, "")
		late, _ := b.open("acme", gatewaytest.Ptr(chats.Number(0))) // knows of 2, and reads by itself
		got := make(chan []chats.Number, 1)
		go func() { got <- numbers(t, late, 3) }()
		synctest.Wait()
		<-watch // it looks, and sees 2
		synctest.Wait()
		b.add(store, "acme", 1, "")
		<-poller // looks, and sees 3
		<-poller
		synctest.Wait() // and hands that to all who have come to 0
		<-watch
		if all := <-got; !slices.Equal(all, from(1, 3)) {
			t.Errorf("%v", all)
		}
		if all := numbers(t, first, 3); !slices.Equal(all, from(1, 3)) {
			t.Errorf("%v", all)
		}
	})
}

// A poller runs while somebody watches, and no longer; Close ends all.
func TestPollersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		one, _ := b.open("acme", nil)
		two, _ := b.open("acme", nil)
		other, _ := b.open("beta", nil)
		one.Close()
		one.Close()
		b.add(b.store, "acme", 1, "")
		if got := numbers(t, two, 1); got[0] != 1 {
			t.Errorf("%v", got)
		}
		two.Close()
		if _, err := two.Next(t.Context()); !errors.Is(err, feed.ErrEnded) {
			t.Errorf("%v", err)
		}
		synctest.Wait()
		reads := b.store.Reads()
		b.add(b.feeds.Store(), "acme", 1, "")
		time.Sleep(10 * poll)
		if b.store.Reads() != reads {
			t.Error("a feed that nobody watches is read")
		}
		waits := make(chan error)
		go func() {
			_, err := other.Next(context.Background())
			waits <- err
		}()
		synctest.Wait()
		b.feeds.Close() // returns only if no poller is left
		if err := <-waits; !errors.Is(err, feed.ErrEnded) {
			t.Errorf("%v", err)
		}
		if _, _, err := b.feeds.Open(t.Context(), "acme", nil); !errors.Is(err, feed.ErrEnded) {
			t.Errorf("a watch began behind the end: %v", err)
		}
	})
}

// However watches of two tenants come, go, rest and resume, each sees every entry of its
// tenant once and in order, and nothing of the other.
func TestRandomWatches(t *testing.T) {
	seed := uint64(time.Now().UnixMicro())
	t.Logf("seed %d (set it in the test to repeat)", seed)
	for round := range 20 {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, uint64(round)))
			b := newBench(t)
			const all = 200
			ended := make(chan error, 20)
			for i := range cap(ended) {
				tenant := conversation.TenantID([]string{"acme", "beta"}[i%2])
				random := rand.New(rand.NewPCG(random.Uint64(), 0))
				go func() { ended <- follow(b, tenant, random, all) }()
			}
			for range all {
				store := []chats.Store{b.store, b.feeds.Store()}[random.IntN(2)]
				b.add(store, "acme", 1, "")
				b.add(store, "beta", 1, "")
				if random.IntN(4) == 0 {
					time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond)
				}
			}
			for range cap(ended) {
				if err := <-ended; err != nil {
					t.Errorf("round %d: %v", round, err)
				}
			}
		})
	}
}

// follow reads all entries of a tenant, by one watch after the other.
func follow(b *bench, tenant conversation.TenantID, random *rand.Rand, all chats.Number) error {
	var at chats.Number
	for at < all {
		w, p, err := b.feeds.Open(context.Background(), tenant, &at)
		if err != nil || !p.Resumed {
			return fmt.Errorf("behind %d: %+v %w", at, p, err)
		}
		for reads := random.IntN(20); reads > 0 && at < all; reads-- {
			page, err := w.Next(context.Background())
			if err != nil {
				return err
			}
			for _, e := range page {
				if want := fmt.Sprintf(`{"topic":"chat.message","project":%q,"n":%d}`, tenant, at+1); string(e.Value) != want {
					return fmt.Errorf("behind %d there came %s", at, e.Value)
				}
				at = e.Number
			}
			if random.IntN(5) == 0 {
				time.Sleep(time.Duration(random.IntN(5000)) * time.Millisecond)
			}
		}
		w.Close()
	}
	return nil
}

func TestPolling(t *testing.T) {
	if wrong := feed.DefaultPolling().Validate(); len(wrong) > 0 {
		t.Error(wrong)
	}
	for _, poll := range []time.Duration{0, time.Millisecond, time.Hour} {
		if wrong := (feed.Polling{Poll: poll}).Validate(); len(wrong) != 1 || wrong[0].Key != "chats.poll" {
			t.Errorf("%v: %v", poll, wrong)
		}
	}
}

func TestTopic(t *testing.T) {
	for value, want := range map[string]string{
		`{"topic":"chat.message","x":1}`: "chat.message", `{"x":1,"topic":"chat.error"}`: "chat.error",
		`{"topic":"two\nlines"}`: "", `{}`: "", `nonsense`: "", ``: "",
	} {
		if got := feed.Topic([]byte(value)); got != want {
			t.Errorf("%s is about %q, want %q", value, got, want)
		}
	}
}
