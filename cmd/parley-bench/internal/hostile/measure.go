package hostile

import (
	"context"
	"fmt"
	"os"
	"time"

	"parley/cmd/parley-bench/internal/cputime"
)

// found is one row of the attacks.
type found struct {
	err            error
	before, most   int // MB
	descriptors    int
	cpu            time.Duration
	alone, during  []time.Duration
	came, notCame  int32
	cut            int
	fate, attacker string
}

func (f found) String() string {
	if f.err != nil {
		return fmt.Sprintf("NOT RUN: %v | | | | | | | |", f.err)
	}
	lost := ""
	if f.cut > 0 {
		lost = fmt.Sprintf(" (%d failed)", f.cut)
	}
	return fmt.Sprintf("%d → %d | %d | %.1f | %s → %s | %s → %s = %.1f×%s | %d of %d | %s | %s", f.before, f.most, f.descriptors, f.cpu.Seconds(),
		ms(f.alone, 0.5), ms(f.during, 0.5), ms(f.alone, 0.99), ms(f.during, 0.99), f.slower(), lost, f.notCame, f.came, f.fate, f.attacker)
}

// slower is how many times longer the honest client's slowest requests take.
func (f found) slower() float64 {
	return float64(quantile(f.during, 0.99)) / float64(max(1, quantile(f.alone, 0.99)))
}

// met is true when the goals are met.
func (f found) met() bool {
	return f.err == nil && f.fate == serves && f.cut == 0 && (f.slower() < slowerGoal || quantile(f.during, 0.99) < slowerFrom)
}

func ms(all []time.Duration, q float64) string {
	return fmt.Sprintf("%.1f", float64(quantile(all, q))/float64(time.Millisecond))
}

// attack measures one attack against one program.
func (h *Hostile) attack(ctx context.Context, path string, a attack) (f found) {
	dir, err := os.MkdirTemp("", "parley-hostile-")
	if err != nil {
		return found{err: err}
	}
	defer os.RemoveAll(dir)
	s, err := start(path, dir, h.Guard, a.set)
	if err != nil {
		return found{err: err}
	}
	defer s.kill()
	client, err := newHonest(s.addr)
	if err != nil {
		return found{err: err}
	}
	defer client.close()
	client.measure(ctx, h.Duration/8) // warm
	f.alone = client.measure(ctx, h.Duration/2)
	f.before, _ = s.holds()
	attacker, err := launch(ctx, a.name, s.addr, h.Duration)
	if err != nil {
		return found{err: err}
	}
	defer attacker.end()
	client.cut = 0
	var others newcomers
	coming, stop := context.WithCancel(ctx)
	defer stop()
	go others.come(coming, s.addr, client.session)
	cpu := cputime.Of(s.cmd.Process.Pid)
	if err := attacker.begin(); err != nil {
		return found{err: err}
	}
	f.during = client.measure(ctx, h.Duration)
	stop()
	f.attacker = attacker.said()
	s.mu.Lock()
	f.most, f.descriptors, f.cpu = s.memory, s.openFDs, s.cpu-cpu
	s.mu.Unlock()
	f.came, f.notCame, f.cut, f.fate = others.came.Load(), others.refused.Load(), client.cut, s.fate()
	return f
}

// ended is one row of the ends.
type ended struct {
	err            error
	took           time.Duration
	exit, attacker string
}

func (e ended) String() string {
	if e.err != nil {
		return fmt.Sprintf("NOT RUN: %v | | |", e.err)
	}
	return fmt.Sprintf("%.1f | %s | %s", e.took.Seconds(), e.exit, e.attacker)
}

func (e ended) met() bool { return e.err == nil && e.took < endGoal && e.exit == "0" }

// mostEnd is how long an end is waited for.
const mostEnd = 40 * time.Second

// drain measures how long one program takes to end.
func (h *Hostile) drain(ctx context.Context, path string, a attack) (e ended) {
	dir, err := os.MkdirTemp("", "parley-hostile-")
	if err != nil {
		return ended{err: err}
	}
	defer os.RemoveAll(dir)
	s, err := start(path, dir, h.Guard, a.set)
	if err != nil {
		return ended{err: err}
	}
	defer s.kill()
	attacker, err := launch(ctx, a.name, s.addr, h.Duration)
	if err != nil {
		return ended{err: err}
	}
	defer attacker.end()
	if err := attacker.begin(); err != nil {
		return ended{err: err}
	}
	e.attacker = attacker.said()
	e.took, e.exit = s.stop(mostEnd)
	return e
}
