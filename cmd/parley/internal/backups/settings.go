package backups

import (
	"path/filepath"
	"strings"
	"time"

	"parley/conversation/option"
)

// Settings are the schedule; their tags are the keys of the configuration.
type Settings struct {
	Every time.Duration `key:"backup.every" min:"0s"`           // 0 = no schedule
	Keep  int           `key:"backup.keep" min:"1" max:"10000"` // so many stay
	Dir   string        `key:"backup.dir"`                      // where they lie; it has to be there. "" only with Every 0
}

// Defaults are the settings of a configuration that says nothing.
func Defaults() Settings { return Settings{Keep: 7} }

// On says whether there is a schedule.
func (s Settings) On() bool { return s.Every > 0 }

// least is the shortest time between backups: a shorter one is a wrong unit.
const least = time.Second

// Validate looks at what the settings say together with the place of the sessions: data is
// the data directory, "" = they are in memory alone; postgres: they are in a database.
func (s Settings) Validate(data string, postgres bool) (wrong []option.FieldError) {
	add := func(when bool, key, sentence string) {
		if when && len(wrong) == 0 { // what follows would follow from it
			wrong = append(wrong, option.FieldError{Key: key, Sentence: sentence})
		}
	}
	if !s.On() {
		return nil
	}
	add(s.Every < least, "backup.every", "must be 0s, for no schedule, or at least 1s")
	add(postgres, "backup.every", "must be 0s with store.postgres: PostgreSQL's own tools make the backups of a database (pg_basebackup with an archive of the log, or pg_dump)")
	add(data == "", "backup.every", `must be 0s with memory.mode = "ephemeral": there is nothing to back up`)
	add(s.Dir == "", "backup.dir", "must name a directory while backup.every is set, best on another disk")
	add(s.Dir != "" && within(data, s.Dir), "backup.dir", "must not lie in the data directory ("+data+"): what destroys the one would destroy the other; best is another disk")
	return wrong
}

// within is true for dir itself and everything below it, symbolic links followed.
func within(dir, path string) bool {
	rel, err := filepath.Rel(followed(dir), followed(path))
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// followed is a path without links, as far as it is there.
func followed(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	for p, rest := path, ""; ; p, rest = filepath.Dir(p), filepath.Join(filepath.Base(p), rest) {
		if r, err := filepath.EvalSymlinks(p); err == nil || filepath.Dir(p) == p {
			return filepath.Join(r, rest)
		}
	}
}
