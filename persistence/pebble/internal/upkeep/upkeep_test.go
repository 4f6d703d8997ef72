package upkeep

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Many erasures are cleared together, at once after a pause and at most once in
// each pause, and a clearing that fails is tried again.
func TestClearingsAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var at []time.Duration
		fails := 0
		u := &Upkeep{Needs: Needs{Log: slog.New(slog.DiscardHandler)}}
		u.clear = func(context.Context) error {
			at = append(at, time.Since(begin))
			if fails > 0 {
				fails--
				return os.ErrInvalid
			}
			return nil
		}
		u.start() // the first one is for what the process before left
		defer u.Close()
		time.Sleep(10 * time.Minute)
		for range 110 {
			u.Wake()
			time.Sleep(time.Second)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait() // the clearing is over
		fails = 1
		u.Wake()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		want := []time.Duration{2, 602, 652, 702, 752, 1312, 1362}
		for i := range want {
			want[i] *= time.Second
		}
		if !slices.Equal(at, want) {
			t.Errorf("clearings at\n%v, want\n%v", at, want)
		}
	})
}
