package pebble

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	dto "github.com/prometheus/client_model/go"
	"pgregory.net/rapid"

	"parley/conversation"
)

// A turn of a session that works writes twelve keys: its two commits a record, a unique
// key, a task's row, its place in the list of all tasks, the due time or its end, and
// the head each. Its place in the list of sessions moves once a second.
func TestKeysOfATurn(t *testing.T) {
	db := openMem(t, vfs.NewMem(), testOptions(t))
	key := conversation.SessionKey{Tenant: "acme", Session: "abcdefghijklmnop"}
	h, err := db.Acquire(t.Context(), key, conversation.AcquireHow{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	oneTurn := func(at time.Duration) float64 {
		before := writtenKeys(t, db)
		asked := turn(key, &h, began.Add(at), "question")
		answered := turn(key, &conversation.Head{Epoch: h.Epoch, Last: h.Last + 3}, began.Add(at+10*time.Millisecond), "answer")
		answered.Tasks[0].Task, answered.Tasks[0].CreatedAt = asked.Tasks[0].Task, asked.Tasks[0].CreatedAt
		answered.Tasks[0].Status, answered.WakeAt = conversation.TaskComplete, time.Time{}
		for _, c := range []conversation.Commit{asked, answered} {
			if err := db.Commit(t.Context(), key, c); err != nil {
				t.Fatal(err)
			}
			h.Last += conversation.Seq(len(c.Events))
		}
		return writtenKeys(t, db) - before
	}
	for _, c := range []struct {
		at   time.Duration
		want float64
	}{
		{0, 13},                          // it comes into the list
		{200 * time.Millisecond, 12},     //
		{980 * time.Millisecond, 12},     // the answer at 990 ms
		{995 * time.Millisecond, 12 + 2}, // the answer moves it: out of one place and into another
		{1500 * time.Millisecond, 12},    //
		{time.Minute, 12 + 2},            //
	} {
		if n := oneTurn(c.at); n != c.want {
			t.Errorf("the turn at %v wrote %v keys instead of %v", c.at, n, c.want)
		}
	}
}

func writtenKeys(t *testing.T, db *DB) float64 {
	t.Helper()
	var m dto.Metric
	if err := db.metrics.WrittenKeys.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}

// Pages of the list of sessions are exact to the millisecond while sessions move: each
// page is the list of its moment behind its cursor, so that one that does not move
// is seen once, and one that moves is lost or repeated only if it crossed the cursor.
func TestPagesOfMovingSessions(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		o := testOptions(t)
		db, err := openOn(vfs.NewMem(), "store", o)
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		began := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
		heads := map[conversation.SessionKey]*conversation.Head{}
		truth := map[conversation.SessionKey]time.Time{}
		active := func(label string) {
			key := conversation.SessionKey{
				Tenant:  rapid.SampledFrom([]conversation.TenantID{"a", "b"}).Draw(rt, label+" tenant"),
				Session: conversation.SessionID(fmt.Sprintf("s%d", rapid.IntRange(0, 11).Draw(rt, label+" session"))),
			}
			h := heads[key]
			if h == nil {
				got, err := db.Acquire(context.Background(), key, conversation.AcquireHow{Create: true})
				if err != nil {
					rt.Fatal(err)
				}
				h = &got
				heads[key] = h
			}
			at := truth[key] // mostly forward by less than the lag
			if at.IsZero() || rapid.IntRange(0, 5).Draw(rt, label+" anywhere") == 0 {
				at = began.Add(time.Duration(rapid.IntRange(0, 2500).Draw(rt, label+" at")) * time.Millisecond)
			} else {
				at = at.Add(time.Duration(rapid.IntRange(-200, 700).Draw(rt, label+" by")) * time.Millisecond)
			}
			c := turn(key, h, at, "hello")
			if err := db.Commit(context.Background(), key, c); err != nil {
				rt.Fatal(err)
			}
			h.Last += conversation.Seq(len(c.Events))
			if at.After(truth[key]) {
				truth[key] = at
			}
		}
		for i := range rapid.IntRange(1, 40).Draw(rt, "commits") {
			active(fmt.Sprintf("first %d", i))
		}
		p := conversation.Page{Tenant: "a", Oldest: rapid.Bool().Draw(rt, "oldest"), Limit: rapid.IntRange(1, 5).Draw(rt, "limit")}
		var at conversation.Summary
		for n := 0; n < 100; n++ {
			want := listAt(truth, p, at)
			page, err := listOf(db.Sessions(context.Background(), p))
			if err != nil {
				rt.Fatal(err)
			}
			if got := placesOf(page); !slices.Equal(got, want) {
				rt.Fatalf("page %d of %+v:\n%q\ninstead of\n%q", n, p, got, want)
			}
			if len(page) == 0 {
				break
			}
			at = page[len(page)-1]
			p.Cursor = at.PageCursor()
			for i := range rapid.IntRange(0, 3).Draw(rt, "moves") {
				active(fmt.Sprintf("then %d.%d", n, i))
			}
		}
		if err := whole(db, false); err != nil {
			rt.Fatalf("the store contradicts itself:\n%v", err)
		}
	})
}

// listAt is the page that a list of these sessions has.
func listAt(truth map[conversation.SessionKey]time.Time, p conversation.Page, at conversation.Summary) []string {
	var all []conversation.Summary
	for key, when := range truth {
		if p.Oldest || key.Tenant == p.Tenant {
			all = append(all, conversation.Summary{Key: key, Activity: when})
		}
	}
	order := func(a, b conversation.Summary) int {
		by := b.Activity.Compare(a.Activity)
		if by == 0 {
			by = strings.Compare(string(a.Key.Session), string(b.Key.Session))
		}
		if p.Oldest {
			by = -by
		}
		return by
	}
	slices.SortFunc(all, func(a, b conversation.Summary) int {
		if by := order(a, b); by != 0 {
			return by
		}
		return strings.Compare(string(b.Key.Tenant), string(a.Key.Tenant)) // only oldest first has two tenants
	})
	if p.Cursor != "" {
		all = slices.DeleteFunc(all, func(s conversation.Summary) bool { return order(s, at) <= 0 })
	}
	return placesOf(all[:min(p.Limit, len(all))])
}

func placesOf(page []conversation.Summary) (places []string) {
	for _, s := range page {
		places = append(places, fmt.Sprintf("%s at %s", s.Key, s.Activity.Format("15:04:05.000")))
	}
	return places
}

// A list of many sessions that were active within the same second reads the heads of a
// second once for ever more rows, not once for each page of 256: that would be 12 times.
func TestAllSessionsOfASecond(t *testing.T) {
	const sessions = 3000
	db := openMem(t, vfs.NewMem(), testOptions(t))
	db.writes = pebble.NoSync
	began := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	truth := map[conversation.SessionKey]time.Time{}
	for i := range sessions {
		key := conversation.SessionKey{Tenant: "a", Session: conversation.SessionID(fmt.Sprintf("s%04d", i*7%sessions))}
		h, err := db.Acquire(t.Context(), key, conversation.AcquireHow{Create: true, Lazy: true})
		if err != nil {
			t.Fatal(err)
		}
		truth[key] = began.Add(time.Duration(i%900) * time.Millisecond)
		if err := db.Commit(t.Context(), key, turn(key, &h, truth[key], "hello")); err != nil {
			t.Fatal(err)
		}
	}
	var m dto.Metric
	views := func() float64 {
		if err := db.metrics.Reads.WithLabelValues("sessions").Write(&m); err != nil {
			t.Fatal(err)
		}
		return m.GetCounter().GetValue()
	}
	for _, oldest := range []bool{false, true} {
		before := views()
		p := conversation.Page{Tenant: "a", Oldest: oldest}
		all, err := listOf(db.Sessions(t.Context(), p))
		if err != nil {
			t.Fatal(err)
		}
		p.Limit = sessions
		if got, want := placesOf(all), listAt(truth, p, conversation.Summary{}); !slices.Equal(got, want) {
			t.Errorf("oldest first %v: %d sessions, not those and in the order of a model", oldest, len(got))
		}
		if n := views() - before; n > 6 {
			t.Errorf("oldest first %v: the heads of the second were read %v times", oldest, n)
		}
	}
}
