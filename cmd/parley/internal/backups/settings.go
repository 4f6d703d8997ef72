package backups

import (
	"time"

	"parley/cmd/parley/internal/store"
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
	add(s.Dir != "" && store.Within(data, s.Dir), "backup.dir", "must not lie in the data directory ("+data+"): what destroys the one would destroy the other; best is another disk")
	return wrong
}
