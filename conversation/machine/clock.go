package machine

import "time"

// clock holds the times that commands have brought: a session knows no other.
type clock struct {
	heard  time.Time // at the last Decide; zero after a load
	ticked time.Time // the last Tick: what was due by then has been done; zero after a load
}

// hear takes the time of a command. A clock may be set back; what becomes due
// between the new time and the last Tick is then not done yet.
func (c *clock) hear(now time.Time) {
	c.heard = now
	if now.Before(c.ticked) {
		c.ticked = now
	}
}
