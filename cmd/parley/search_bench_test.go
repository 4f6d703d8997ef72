package main

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/cmd/parley/internal/store"
	"parley/conversation"
	"parley/conversation/search"
	"parley/gateway/find"
	"parley/metrics"
	"parley/persistence/postgres/pgtest"
)

// BenchmarkSearch searches 100,000 messages of 1,000 sessions in the embedded store and in
// PostgreSQL, with the index and without. Run it with -benchtime=1x; read p50-ms and p99-ms. Ann
// owns 980 sessions and Bob 20; all are private. A search is all pages of it for a rare word, and
// the first page for others. build makes the index of what is there. commits writes turns, and
// every other time takes them into the index before its clock stops: ratio is what is left of the
// throughput while the machine has nothing else to do than both.
func BenchmarkSearch(b *testing.B) {
	b.Run("embedded", func(b *testing.B) {
		o := store.Defaults()
		o.Ballast = 0
		dir := b.TempDir()
		db, err := store.Open(dir, o)
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		benchSearch(b, db, func() int64 { return bytesIn(b, dir, db) })
	})
	b.Run("postgres", func(b *testing.B) {
		server := pgtest.Open(b, pgtest.Settings{Extra: map[string]string{"shared_buffers": "128MB"}})
		dsn := server.NewDatabase(b)
		o := store.SharedOptions{Migrate: true, Cluster: "c"}
		o.DSN, o.Logger = dsn, slog.New(slog.DiscardHandler)
		db, err := store.OpenShared(b.Context(), o)
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		benchSearch(b, db, func() (n int64) {
			said, err := server.Ask(b.Context(), "postgres", "select sum(pg_database_size(oid))::bigint from pg_database")
			if err == nil {
				n, err = strconv.ParseInt(strings.TrimSpace(said), 10, 64)
			}
			if err != nil {
				b.Fatal(err)
			}
			return n
		})
	})
}

func benchSearch(b *testing.B, db store.Store, size func() int64) {
	const sessions, each = 1000, 100
	random := rand.New(rand.NewPCG(1, 2))
	var words []string
	for range 5000 {
		words = append(words, fmt.Sprintf("w%x", random.Uint64()>>34))
	}
	text := func() string {
		var said []string
		for range 10 + random.IntN(60) {
			said = append(said, words[int(float64(len(words))*random.Float64()*random.Float64()*random.Float64())])
		}
		return strings.Join(said, " ")
	}
	at := time.Now().Add(-sessions * each * time.Second)
	var all []conversation.Commit
	for i := range sessions {
		key := conversation.SessionKey{Tenant: "acme", Session: conversation.SessionID(fmt.Sprintf("session%09d", i))}
		c := conversation.Commit{Summary: conversation.Summary{Key: key, Owner: "ann", Agent: "a", Title: "A title", CreatedAt: at}}
		if i%50 == 0 {
			c.Summary.Owner = "bob"
		}
		for n := range each {
			at = at.Add(time.Second)
			said := text()
			if i%100 == 7 && n == 50 {
				said += " rareword"
			}
			c.Events = append(c.Events, conversation.Event{Seq: conversation.Seq(n + 1), At: at, Body: conversation.MessageAccepted{
				Message: conversation.MessageID(fmt.Sprintf("m%d-%s", n+1, key.Session)), Author: c.Summary.Owner, Text: said}})
		}
		c.Summary.Activity = at
		all = append(all, c)
	}
	writeAll(b, db, all, 10)
	before := size()
	ask := func(b *testing.B, f *find.Finder, user conversation.UserID, q string, whole bool, times int) {
		b.Helper()
		query, err := search.Read(q, 16)
		if err != nil {
			b.Fatal(err)
		}
		var took []time.Duration
		found, pages := 0, 0
		for range times {
			begun := time.Now()
			found, pages = 0, 0
			for cursor := ""; pages == 0 || whole && cursor != ""; pages++ {
				all, next, err := f.Messages(b.Context(), find.Ask{Tenant: "acme", User: user, Query: query, Limit: 50, Cursor: cursor})
				if err != nil {
					b.Fatal(err)
				}
				found, cursor = found+len(all), next
			}
			took = append(took, time.Since(begun))
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
		b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		b.ReportMetric(float64(found), "found")
		b.ReportMetric(float64(pages), "pages")
	}
	m := metrics.NewSearch(prometheus.NewRegistry())
	logs := find.New(db, nil, find.Defaults(), m)
	b.Run("logs/rare", func(b *testing.B) { ask(b, logs, "ann", "rareword", true, 1) })
	b.Run("logs/common", func(b *testing.B) { ask(b, logs, "ann", words[0], false, 3) })
	index := find.New(db, store.Index(db), find.Defaults(), m)
	built := false
	b.Run("build", func(b *testing.B) {
		if built {
			return // the benchmark runs twice where its time is not fixed
		}
		built = true
		begun := time.Now()
		if err := index.Build(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(time.Since(begun).Microseconds())/sessions/each, "µs/message")
		b.ReportMetric(float64(size()-before)/sessions/each, "index-B/message")
		b.ReportMetric(float64(before)/sessions/each, "log-B/message")
	})
	for _, c := range []struct {
		name  string
		user  conversation.UserID
		q     string
		whole bool
	}{
		{"rare", "ann", "rareword", true}, {"absent", "ann", "nowhere", true}, {"common", "ann", words[0], false},
		{"two", "ann", words[0] + " " + words[3000], false}, {"prefix", "ann", words[4000][:4], false},
		{"little_rare", "bob", "rareword", true}, {"little_common", "bob", words[0], false},
	} {
		b.Run("index/"+c.name, func(b *testing.B) { ask(b, index, c.user, c.q, c.whole, 30) })
	}
	b.Run("commits", func(b *testing.B) {
		var with, without time.Duration
		for round := range 6 {
			turns := slices.Clone(all[:100])
			for i := range turns {
				turns[i].Summary.Key.Session = conversation.SessionID(fmt.Sprintf("round%d%d%09d", b.N, round, i))
				turns[i].Summary.Activity = at.Add(time.Hour)
			}
			begun := time.Now()
			writeAll(b, db, turns, 2)
			if round%2 == 0 {
				if err := index.Build(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			took := time.Since(begun)
			if round%2 == 0 {
				with += took
			} else {
				without += took
			}
		}
		b.ReportMetric(3*5000/without.Seconds(), "commits/s")
		b.ReportMetric(float64(without)/float64(with), "ratio")
	})
}

// writeAll commits the events of some sessions, some at a time, many sessions at once.
func writeAll(b *testing.B, db store.Store, all []conversation.Commit, some int) {
	b.Helper()
	var group sync.WaitGroup
	work := make(chan conversation.Commit)
	for range 64 {
		group.Go(func() {
			for c := range work {
				key := c.Summary.Key
				h, err := db.Acquire(b.Context(), key, conversation.AcquireHow{Create: true})
				for part := range slices.Chunk(c.Events, some) {
					p := c
					p.Epoch, p.Events, p.After, p.ID = h.Epoch, part, part[0].Seq-1, conversation.CommitID(fmt.Sprint(part[0].Seq))
					end := make(chan error, 1)
					if err == nil {
						db.CommitAsync(b.Context(), key, &p, func(err error) { end <- err })
						err = <-end
					}
				}
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	for _, c := range all {
		work <- c
	}
	close(work)
	group.Wait()
}

// bytesIn is what the tables of a store take on the disk: a copy of it has no logs.
func bytesIn(b *testing.B, dir string, db store.Store) (n int64) {
	b.Helper()
	to := filepath.Join(b.TempDir(), "copy")
	if _, err := db.Backup(context.Background(), to, "bench"); err != nil {
		b.Fatal(err)
	}
	_ = filepath.WalkDir(to, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if info, err := d.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil
	})
	return n
}
