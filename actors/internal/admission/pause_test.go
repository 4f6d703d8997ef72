package admission

import (
	"testing"
	"testing/synctest"
	"time"
)

// A pause does not depend on the clock on the wall: what it reads there is nothing that
// the pause is asked.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPause()
		if p.On() {
			t.Error("on before it has begun")
		}
		time.Sleep(time.Hour)
		p.Begin(time.Second)
		time.Sleep(time.Second - 1)
		if !p.On() {
			t.Error("over too early")
		}
		time.Sleep(time.Nanosecond)
		if p.On() {
			t.Error("over too late")
		}
	})
}
