package scripted

import (
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
)

// Random programs: everything ends, and each message gets exactly one end. N-01.
func TestRandomPrograms(t *testing.T) {
	lines := []string{
		"/say A", "/partial B", "/parts C | D", "/ask E?", "/askopen What is F?", "/askopen Which? [A/B]", "/say $reply", "/partial $result",
		"/tool clock {}", "/tool none", "/delegate researcher /say G", "/delegate developer fix it", "/parallel researcher /ask H? && /say $reply || developer /partial I",
		"/stream 3 x", "/preamble K $result", "/cover 1 duplicate", "/cover 2 dismissed", "/amend 1 /say J", "/ignore", "/empty", "/noreply", "/fail 500 2", "/fail 429", "/wait 1s", "/loop", "nonsense",
	}
	plain := []string{"Fix the login bug", "Actually use OAuth instead", "Set up auth", "JWT", "Send the report to Max", "What's the weather?", "1+1", "hello", "blue"}
	seed := rand.Uint64()
	if s := os.Getenv("PARLEY_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	random := rand.New(rand.NewPCG(seed, 1))
	var program []string
	defer func() {
		if failed := recover(); failed != nil { // it found no rest
			t.Fatalf("seed %d (PARLEY_SEED=%d go test -run RandomPrograms ./models/scripted): %v\nafter %q", seed, seed, failed, program)
		}
	}()
	for round := range 300 {
		p := newPlay(t, round%2 == 0)
		program = nil
		for range 1 + random.IntN(5) {
			text := plain[random.IntN(len(plain))]
			if random.IntN(2) == 0 {
				var picked []string
				for range 1 + random.IntN(5) {
					picked = append(picked, lines[random.IntN(len(lines))])
				}
				text = strings.Join(picked, "\n")
			}
			program = append(program, text)
			p.say(text)
			if random.IntN(3) == 0 {
				p.release()
			}
		}
		for range 50 { // a friendly world: delegates end, questions are answered
			p.release()
			open := p.session().Machine.View().Questions
			if len(open) == 0 {
				break
			}
			p.answer(open[0].Asked.Question, "A")
		}
		if v := p.session().Machine.View(); len(v.Tasks) > 0 || len(v.Inbox) > 0 {
			t.Fatalf("seed %d (PARLEY_SEED=%d go test -run RandomPrograms ./models/scripted): %+v\nafter %q\n%s",
				seed, seed, v.Tasks, program, strings.Join(p.events(), "\n"))
		}
	}
}
