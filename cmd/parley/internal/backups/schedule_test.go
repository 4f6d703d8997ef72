package backups

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/cmd/parley/internal/store"
	"parley/conversation"
	"parley/metrics"
)

const ours = conversation.LogID("log_ours")

// place is a directory of backups, with a schedule whose backups are their BACKUP.json alone.
type place struct {
	t        *testing.T
	dir      string
	whose    conversation.LogID
	registry *prometheus.Registry
	metrics  *metrics.Backups
	log      bytes.Buffer
	ahead    time.Duration // of the date before the clock of seconds
	made     []time.Time   // by the clock of seconds
	fail     error         // what the next backups end with
	during   func(ctx context.Context, dest string) error
}

func newPlace(t *testing.T) *place {
	r := prometheus.NewRegistry()
	return &place{t: t, dir: t.TempDir(), whose: ours, registry: r, metrics: metrics.NewBackups(r)}
}

func (p *place) now() time.Time { return time.Now().Add(p.ahead) }

// put makes a backup of a log in the directory.
func (p *place) put(dir string, log conversation.LogID, at time.Time) store.BackupInfo {
	p.t.Helper()
	info := store.BackupInfo{Version: 1, Log: log, Time: at.UTC().Truncate(time.Millisecond), Bytes: 5}
	text, err := json.Marshal(info)
	if err = errors.Join(err, os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "BACKUP.json"), text, 0o600), os.WriteFile(filepath.Join(dir, "000001.sst"), []byte("table"), 0o600)); err != nil {
		p.t.Fatal(err)
	}
	return info
}

func (p *place) at(at time.Time) string { return filepath.Join(p.dir, at.UTC().Format(nameFormat)) }

// run runs a schedule for so long, as one process.
func (p *place) run(s Settings, long time.Duration) {
	p.t.Helper()
	if s.Dir == "" {
		s.Dir = p.dir
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), long)
	defer cancel()
	Schedule{s, Deps{Log: p.whose, Now: p.now, Metrics: p.metrics, Logger: slog.New(slog.NewTextHandler(&p.log, nil)),
		Make: func(ctx context.Context, dest string) (store.BackupInfo, error) {
			if p.during != nil {
				if err := p.during(ctx, dest); err != nil {
					return store.BackupInfo{}, err
				}
			}
			if p.fail != nil {
				return store.BackupInfo{}, p.fail
			}
			p.made = append(p.made, time.Now())
			return p.put(dest, p.whose, p.now()), nil
		}}}.Run(ctx)
}

func (p *place) names() (all []string) {
	p.t.Helper()
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func (p *place) value(name string) float64 {
	p.t.Helper()
	families, err := p.registry.Gather()
	if err != nil {
		p.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			m := f.GetMetric()[0]
			return m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	p.t.Fatalf("there is no %s", name)
	return 0
}

// A backup is made each hour, and the oldest go.
func TestEveryHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t)
		began := time.Now()
		p.run(Settings{Every: time.Hour, Keep: 3}, 5*time.Hour+time.Minute)
		if len(p.made) != 6 || p.made[0] != began || p.made[5] != began.Add(5*time.Hour) {
			t.Errorf("made at %v, begun at %v", p.made, began)
		}
		var want []string
		for h := 3; h <= 5; h++ {
			want = append(want, filepath.Base(p.at(began.Add(time.Duration(h)*time.Hour))))
		}
		if got := p.names(); !slices.Equal(got, want) {
			t.Errorf("kept %v, want %v", got, want)
		}
		for name, want := range map[string]float64{
			"parley_backup_every_seconds": 3600, "parley_backups_kept": 3, "parley_backup_duration_seconds": 6,
			"parley_backup_last_good_timestamp_seconds": float64(began.Add(5 * time.Hour).Unix()),
		} {
			if got := p.value(name); got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
	})
}

// Without a schedule nothing is made, and the metric says so.
func TestNoSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t)
		p.run(Defaults(), 1000*time.Hour)
		if len(p.names()) > 0 || p.value("parley_backup_every_seconds") != 0 {
			t.Error(p.names())
		}
	})
}

// A restart neither makes a backup that is not due nor forgets one that is.
func TestRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t)
		began := time.Now()
		for range 150 { // ten minutes each
			p.run(Settings{Every: 24 * time.Hour, Keep: 3}, 10*time.Minute)
		}
		if len(p.made) != 2 || p.made[1].Sub(began) != 24*time.Hour {
			t.Errorf("in 25 hours made at %v, begun at %v", p.made, began)
		}
		<-time.After(100 * time.Hour) // the server is not there: the time of the bubble
		again := time.Now()
		p.metrics.LastGood.Set(0)
		p.run(Settings{Every: 24 * time.Hour, Keep: 3}, time.Minute)
		if len(p.made) != 3 || p.made[2] != again {
			t.Errorf("after four days without a server: %v", p.made[2:])
		}
	})
}

// At a start the metrics say what lies there, before anything is made.
func TestMetricsOfWhatLiesThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t)
		last := time.Now().Add(-time.Hour)
		p.put(p.at(last.Add(-time.Hour)), ours, last.Add(-time.Hour))
		p.put(p.at(last), ours, last)
		p.run(Settings{Every: 24 * time.Hour, Keep: 3}, time.Second)
		if got := p.value("parley_backup_last_good_timestamp_seconds"); got != float64(last.Unix()) || p.value("parley_backups_kept") != 2 || len(p.made) > 0 {
			t.Errorf("%v, want %v; %d kept, %d made", got, last.Unix(), int(p.value("parley_backups_kept")), len(p.made))
		}
	})
}

// What is not the schedule's own is never removed, however much of it there is.
func TestOnlyItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t)
		old := time.Now().Add(-1000 * time.Hour)
		p.put(p.at(old), "log_other", old)                       // of another store
		p.put(filepath.Join(p.dir, "before-upgrade"), ours, old) // made by hand
		p.put(filepath.Join(p.dir, "parley-2026"), ours, old)
		foreign := p.at(old.Add(time.Hour)) // a name like ours, and no backup
		unread := p.at(old.Add(2 * time.Hour))
		outside := t.TempDir()
		p.put(filepath.Join(outside, "b"), ours, old)
		link := p.at(old.Add(3 * time.Hour))
		if err := errors.Join(os.Mkdir(foreign, 0o700), os.WriteFile(filepath.Join(foreign, "thesis.tex"), nil, 0o600),
			os.Mkdir(unread, 0o700), os.WriteFile(filepath.Join(unread, "BACKUP.json"), []byte("{"), 0o600), os.Symlink(filepath.Join(outside, "b"), link),
			os.WriteFile(filepath.Join(p.dir, "note.txt"), nil, 0o600), os.Mkdir(foreign+writing, 0o700), os.WriteFile(foreign+begun, []byte("log_other\n"), 0o600),
			os.Mkdir(p.at(old.Add(4*time.Hour))+writing, 0o700)); err != nil { // somebody else's, or of a manual one
			t.Fatal(err)
		}
		before := p.names()
		p.run(Settings{Every: time.Hour, Keep: 1}, 5*time.Hour+time.Minute)
		after := p.names()
		for _, name := range before {
			if !slices.Contains(after, name) {
				t.Errorf("%s is gone", name)
			}
		}
		if len(p.made) != 6 || len(after) != len(before)+1 {
			t.Errorf("%d made; there were %v, there are %v", len(p.made), before, after)
		}
		if !strings.Contains(p.log.String(), "backup_unread") {
			t.Errorf("nobody said that a backup cannot be read:\n%s", &p.log)
		}
	})
}

// Two servers that share a directory begin in the same second: each has a name of its own,
// and neither takes the other's copy away while it is made.
func TestSameSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, q := newPlace(t), newPlace(t)
		q.dir, q.whose = p.dir, "log_other"
		began := time.Now()
		p.during = func(_ context.Context, dest string) error {
			if err := os.Mkdir(dest+writing, 0o700); err != nil {
				t.Error(err)
			}
			q.run(Settings{Every: time.Hour, Keep: 9}, 2*time.Hour+time.Minute)
			if whose, err := os.ReadFile(dest + begun); err != nil || string(whose) != string(ours)+"\n" {
				t.Errorf("whose copy it is: %q, %v", whose, err)
			}
			if err := os.Remove(dest + writing); err != nil {
				t.Errorf("what was being made is gone: %v", err)
			}
			return nil
		}
		p.run(Settings{Every: 24 * time.Hour, Keep: 9}, 3*time.Hour)
		want := []string{p.at(began), p.at(began.Add(time.Second)), p.at(began.Add(time.Hour)), p.at(began.Add(2 * time.Hour))}
		for i := range want {
			want[i] = filepath.Base(want[i])
		}
		if got := p.names(); !slices.Equal(got, want) || len(p.made) != 1 || len(q.made) != 3 || q.made[0] != began {
			t.Errorf("there is %v, want %v; made at %v and %v", got, want, p.made, q.made)
		}
		for _, log := range []string{p.log.String(), q.log.String()} {
			if strings.Contains(log, "backup_failed") {
				t.Error(log)
			}
		}
	})
}

// A name that another server's whole backup has, or what is left of somebody's, is not taken.
func TestTakenNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t)
		began := time.Now()
		p.put(p.at(began), "log_other", began)
		for i, left := range []string{writing, begun, ""} { // the last one is a file
			if err := os.WriteFile(p.at(began.Add(time.Duration(i+1)*time.Second))+left, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		p.run(Settings{Every: time.Hour, Keep: 9}, time.Minute)
		if len(p.made) != 1 || p.made[0] != began {
			t.Errorf("made at %v, begun at %v:\n%s", p.made, began, &p.log)
		}
		mine := p.at(began.Add(4 * time.Second))
		if info, err := store.ReadBackup(mine); err != nil || info == nil || info.Log != ours || len(p.names()) != 5 {
			t.Errorf("%v, %v; there is %v", info, err, p.names())
		}
	})
}

// A backup that fails is tried again, soon at first and then less often, and hurts nothing
// that lies there.
func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t)
		var tries []time.Duration
		began := time.Now()
		p.during = func(context.Context, string) error { tries = append(tries, time.Since(began)); return nil }
		p.put(p.at(began.Add(-100*time.Hour)), ours, began.Add(-100*time.Hour))
		p.fail = errors.New("there are 3 MiB free in /backups, and the backup needs 50 MiB")
		p.run(Settings{Every: 24 * time.Hour, Keep: 1}, 80*time.Hour)
		h := time.Hour
		want := []time.Duration{0, 24 * h / 10, 72 * h / 10, 168 * h / 10, 360 * h / 10, 600 * h / 10}
		if !slices.Equal(tries, want) {
			t.Errorf("tried after %v, want %v", tries, want)
		}
		if got := p.names(); len(got) != 1 {
			t.Errorf("there is %v", got)
		}
		if text := p.log.String(); strings.Count(text, "level=ERROR") != len(want) || !strings.Contains(text, "code=backup_failed") || !strings.Contains(text, "3 MiB free") {
			t.Errorf("the log says\n%s", text)
		}
		p.fail = nil
		p.run(Settings{Every: 24 * time.Hour, Keep: 1}, 24*time.Hour+time.Minute)
		if len(p.made) != 2 {
			t.Errorf("made at %v", p.made)
		}
	})
}

// The pause after a failure is a minute at least, and never longer than between backups.
func TestRetry(t *testing.T) {
	for _, c := range []struct{ every, first, late time.Duration }{
		{time.Second, time.Second, time.Second}, {5 * time.Minute, time.Minute, 5 * time.Minute}, {time.Hour, 6 * time.Minute, time.Hour},
	} {
		s := Schedule{Settings: Settings{Every: c.every}}
		if a, b := s.retry(0), s.retry(1000); a != c.first || b != c.late {
			t.Errorf("every %s: %s and %s", c.every, a, b)
		}
	}
}

// The directory goes away and comes back.
func TestDirectoryIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t)
		dir := filepath.Join(p.dir, "disk")
		p.during = func(_ context.Context, dest string) error {
			_, err := os.Stat(filepath.Dir(dest))
			return err
		}
		p.run(Settings{Every: time.Hour, Keep: 2, Dir: dir}, time.Minute)
		if len(p.made) != 0 || len(p.names()) != 0 {
			t.Fatalf("made %v; there is %v", p.made, p.names())
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		p.run(Settings{Every: time.Hour, Keep: 2, Dir: dir}, time.Minute)
		if len(p.made) != 1 {
			t.Errorf("made %v", p.made)
		}
	})
}

// A date that jumps makes no heap of backups, and removes none that is good.
func TestDateJumps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t)
		s := Settings{Every: time.Hour, Keep: 3}
		began := time.Now()
		jumps := []time.Duration{0, 1000 * time.Hour, -1000 * time.Hour, 10 * 365 * 24 * time.Hour, 0}
		p.during = func(_ context.Context, dest string) error {
			p.ahead = jumps[len(p.made)%len(jumps)] // while it is made
			return nil
		}
		p.run(s, 20*time.Hour+time.Minute)
		if len(p.made) != 21 {
			t.Errorf("%d backups in twenty hours", len(p.made))
		}
		for i, at := range p.made {
			if at != began.Add(time.Duration(i)*time.Hour) {
				t.Errorf("backup %d was made %s after the start", i, at.Sub(began))
			}
		}
		if n := len(p.names()); n < 3 || n > 4 { // the one just made may be the oldest by its date
			t.Errorf("kept %v", p.names())
		}
		// One from the future says nothing of when the next one is due.
		p.ahead, p.during, p.made = 0, nil, nil
		again := time.Now()
		p.put(p.at(again.Add(1000*time.Hour)), ours, again.Add(1000*time.Hour))
		p.run(s, 3*time.Hour+time.Minute)
		if len(p.made) != 3 || p.made[0].Sub(again) != 59*time.Minute || !strings.Contains(p.log.String(), "backup_clock") {
			t.Errorf("made at %v, started at %v", p.made, again)
		}
	})
}

// Backups that were made while the date was ahead are older than all others when it is put
// right: good new ones stay, and what the metric says of the last one is of one of them.
func TestDateWasAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const metric, year, day = "parley_backup_last_good_timestamp_seconds", 365 * 24 * time.Hour, 24 * time.Hour
		p := newPlace(t)
		s := Settings{Every: day, Keep: 3}
		p.ahead = year
		p.run(s, 2*day+time.Minute)
		ahead := p.names()
		// The date is put right while nothing can be made.
		p.ahead, p.fail = 0, errors.New("no room")
		p.run(s, time.Minute)
		if got := p.value(metric); got != 0 || p.value("parley_backups_kept") != 3 {
			t.Errorf("of backups of a time to come it says %v", got)
		}
		p.fail, p.made = nil, nil
		p.run(s, day+time.Minute)
		if len(p.made) != 1 || p.value(metric) != float64(p.made[0].Unix()) {
			t.Fatalf("made at %v, the last good one is of %v", p.made, p.value(metric))
		}
		if got, want := p.names(), []string{filepath.Base(p.at(p.made[0])), ahead[1], ahead[2]}; !slices.Equal(got, want) {
			t.Errorf("there is %v, want %v", got, want)
		}
		p.run(s, 4*day) // the next ones are due when the last good one says it
		if len(p.made) != 5 || p.made[1].Sub(p.made[0]) != day {
			t.Errorf("made at %v", p.made)
		}
		var want []string
		for _, at := range p.made[2:] {
			want = append(want, filepath.Base(p.at(at)))
		}
		if got := p.names(); !slices.Equal(got, want) || !strings.Contains(p.log.String(), "backup_clock") {
			t.Errorf("there is %v, want %v; the log says\n%s", got, want, &p.log)
		}
	})
}

// The date is put right in a server that runs, and from then on no backup can be made.
func TestDateIsPutRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t)
		good := time.Now().Add(-time.Hour)
		p.put(p.at(good), ours, good)
		p.ahead = 365 * 24 * time.Hour
		p.during = func(context.Context, string) error {
			if len(p.made) == 1 {
				p.ahead, p.fail = 0, errors.New("no room")
			}
			return nil
		}
		p.run(Settings{Every: time.Hour, Keep: 3}, 90*time.Minute)
		if got := p.value("parley_backup_last_good_timestamp_seconds"); len(p.made) != 1 || got != float64(good.Unix()) {
			t.Errorf("%d made; the last good one is of %v, want %v", len(p.made), got, good.Unix())
		}
	})
}

// One that takes longer than the time between two does not follow on itself.
func TestSlowBackup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t)
		began := time.Now()
		p.during = func(context.Context, string) error { <-time.After(90 * time.Minute); return nil } // of the bubble
		p.run(Settings{Every: time.Hour, Keep: 3}, 4*time.Hour)
		if len(p.made) != 3 || p.made[1].Sub(began) != 186*time.Minute || strings.Contains(p.log.String(), "given up") {
			t.Errorf("made at %v", p.made)
		}
	})
}

// A stop ends a backup at once; what a process that is killed leaves, the next one tidies,
// and only that.
func TestStopAndTidy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t)
		began := time.Now()
		var dest string
		p.during = func(ctx context.Context, to string) error {
			dest = to
			if text, err := os.ReadFile(to + begun); err != nil || string(text) != string(ours)+"\n" {
				t.Errorf("while it is made: %q, %v", text, err)
			}
			if err := os.Mkdir(to+writing, 0o700); err != nil { // as after kill -9: nobody takes it away
				t.Error(err)
			}
			<-ctx.Done()
			return ctx.Err()
		}
		p.run(Settings{Every: time.Hour, Keep: 2}, time.Minute)
		if took := time.Since(began); took != time.Minute || strings.Contains(p.log.String(), "ERROR") {
			t.Errorf("it ended after %s:\n%s", took, &p.log)
		}
		if got := p.names(); len(got) != 2 {
			t.Fatalf("left: %v", got)
		}
		removed := p.at(began.Add(-50*time.Hour)) + removing // begun to be removed
		p.put(removed, ours, began.Add(-50*time.Hour))
		others := p.at(began.Add(-51*time.Hour)) + removing
		p.put(others, "log_other", began.Add(-51*time.Hour))
		p.during = nil
		p.run(Settings{Every: time.Hour, Keep: 2}, time.Minute)
		if got := p.names(); len(got) != 2 || !slices.Contains(got, filepath.Base(others)) || slices.Contains(got, filepath.Base(dest)+writing) {
			t.Errorf("after the next start: %v", got)
		}
	})
}

// What the configuration may say.
func TestValidate(t *testing.T) {
	data := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(data, link); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		s        Settings
		data     string
		postgres bool
		key      string
		says     string
	}{
		"off":                  {Settings{Keep: 7}, data, true, "", ""},
		"on":                   {Settings{Every: time.Hour, Keep: 7, Dir: data + "-backups"}, data, false, "", ""},
		"too often":            {Settings{Every: time.Millisecond, Dir: "/b"}, data, false, "backup.every", "at least 1s"},
		"a database":           {Settings{Every: time.Hour, Dir: "/b"}, data, true, "backup.every", "pg_basebackup"},
		"in memory":            {Settings{Every: time.Hour, Dir: "/b"}, "", false, "backup.every", "nothing to back up"},
		"nowhere":              {Settings{Every: time.Hour}, data, false, "backup.dir", "must name a directory"},
		"in the data":          {Settings{Every: time.Hour, Dir: filepath.Join(data, "b")}, data, false, "backup.dir", "must not lie in"},
		"the data":             {Settings{Every: time.Hour, Dir: data}, data, false, "backup.dir", "must not lie in"},
		"in the data, by link": {Settings{Every: time.Hour, Dir: filepath.Join(link, "b")}, data, false, "backup.dir", "must not lie in"},
	} {
		wrong := c.s.Validate(c.data, c.postgres)
		if c.key == "" && len(wrong) == 0 {
			continue
		}
		if len(wrong) != 1 || wrong[0].Key != c.key || !strings.Contains(wrong[0].Sentence, c.says) {
			t.Errorf("%s: %v", name, wrong)
		}
	}
}

// Doctor hears how many there are, how old and large the last one is, and what is wrong.
func TestLook(t *testing.T) {
	p := newPlace(t)
	at := time.Date(2026, 11, 24, 3, 0, 0, 0, time.UTC)
	if r, err := Look(Settings{Dir: p.dir}, "", at); err != nil || r.Kept != 0 || !r.Last.IsZero() || r.Free == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	p.put(p.at(at), "log_any", at)
	if r, err := Look(Settings{Dir: p.dir}, "", at); err != nil || r.Kept != 1 || r.Last != at || r.Bytes != 5 {
		t.Errorf("%+v, %v", r, err)
	}
	p.put(p.at(at.Add(2*time.Minute)), "log_any", at.Add(2*time.Minute))
	if r, err := Look(Settings{Dir: p.dir}, "", at); err != nil || r.Kept != 2 || r.Ahead != 1 || r.Last != at {
		t.Errorf("beside one of a time to come: %+v, %v", r, err)
	}
	if r, err := Look(Settings{Dir: p.dir}, ours, at); err != nil || r.Kept != 0 {
		t.Errorf("of another store: %+v, %v", r, err)
	}
	if _, err := Look(Settings{Dir: filepath.Join(p.dir, "gone")}, "", at); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
