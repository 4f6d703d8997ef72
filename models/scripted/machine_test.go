package scripted

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The worked examples with the real machine and transcript.
func TestWorkedExamplesOnTheMachine(t *testing.T) {
	const (
		fixed = "The login bug is fixed: the session is renewed after sign-in. (The scripted developer changed no code.)"
		which = "Which auth provider, OAuth or JWT?"
		sent  = "The report is sent to Max. (The scripted communicator sent nothing.)"
	)
	changed := fixed + " Changed on the way: Actually use OAuth instead."
	t.Run("D-18 two independent tasks", func(t *testing.T) {
		p := newPlay(t, true)
		p.say("Fix the login bug")
		p.say("What's the weather?")
		p.release()
		p.happened("d1 developer: Fix the login bug",
			"partial m2: I cannot tell you the weather: no weather tool is configured here.", "m2 answered",
			"response m1: "+fixed, "m1 answered", "COMPLETE")
	})
	t.Run("D-17 amendment", func(t *testing.T) {
		p := newPlay(t, true)
		p.say("Fix the login bug")
		p.say("Actually use OAuth instead")
		p.release()
		p.happened("d1 developer: Fix the login bug", "m2 merged", "response m1: "+changed, "m1 answered", "COMPLETE")
	})
	t.Run("D-17 amendment while the delegate answers", func(t *testing.T) {
		p := newPlay(t, true)
		p.say("Fix the login bug")
		p.Pass(time.Second)
		p.say("Actually use OAuth instead") // the delegate's step is open: it has not read this
		p.release()
		p.happened("d1 developer: Fix the login bug", "m2 merged", "response m1: "+changed, "m1 answered", "COMPLETE")
	})
	for _, auth := range []string{"JWT", "OAuth"} {
		t.Run("D-19 parallel questions "+auth, func(t *testing.T) {
			p := newPlay(t, true)
			p.say("Set up auth")
			p.say("Send the report to Max")
			p.release()
			p.say(auth)
			p.release()
			p.happened("question "+which, "AWAITING_RESPONSE",
				"d1 communicator: Send the report to Max", "partial m2: "+sent, "m2 answered", "AWAITING_RESPONSE",
				"answered "+auth, "m3 merged", "d2 developer: Set up auth with "+auth,
				"response m1: Auth is set up with "+auth+". (The scripted developer changed no code.)", "m1 answered", "COMPLETE")
		})
	}
	t.Run("D-19 the answer comes while the report is under way", func(t *testing.T) {
		p := newPlay(t, true)
		p.say("Set up auth")
		p.say("Send the report to Max")
		p.say("JWT")
		p.release()
		if p.nudges() > 0 || !slices.Contains(p.events(), "m1 answered") || !slices.Contains(p.events(), "m2 answered") || !slices.Contains(p.events(), "m3 merged") {
			t.Fatalf("%s", strings.Join(p.events(), "\n"))
		}
	})
	t.Run("N-04 answered by the question's id", func(t *testing.T) {
		p := newPlay(t, false)
		p.say("Set up auth")
		p.answer("q1", "JWT")
		p.happened("question "+which, "AWAITING_RESPONSE", "answered JWT", "m2 merged", "d1 developer: Set up auth with JWT",
			"response m1: Auth is set up with JWT. (The scripted developer changed no code.)", "m1 answered", "COMPLETE")
	})
	t.Run("D-12 a partial answer alone is promoted", func(t *testing.T) {
		p := newPlay(t, false)
		p.say("/partial A")
		p.happened("partial m1: A", "m1 answered", "response again m1: A", "COMPLETE")
	})
	t.Run("D-07 several messages, separate answers", func(t *testing.T) {
		p := newPlay(t, true)
		p.say("/parallel researcher /say A || developer /say B\n/say $result")
		p.say("/say hi")
		p.release()
		p.happened("d1 researcher: /say A", "d2 developer: /say B", "partial m2: hi", "m2 answered",
			"response m1: [d1 researcher] A\n[d2 developer] B", "m1 answered", "COMPLETE")
	})
	t.Run("N-04 a question asked as a tool", func(t *testing.T) {
		p := newPlay(t, false)
		p.say("/tool askUser {\"question\":\"Which?\"}\n/say got $reply")
		p.say("A")
		p.happened("question Which?", "AWAITING_RESPONSE", "answered A", "m2 merged", "response m1: got A", "m1 answered", "COMPLETE")
		p = newPlay(t, false)
		p.say("/tool askUser {\"question\":\"Which?\",\"blocking\":false}\n/say got $reply")
		p.answer("q1", "B")
		p.happened("question Which?", "AWAITING_RESPONSE", "answered B", "m2 merged", "response m1: got B", "m1 answered", "COMPLETE")
	})
	t.Run("N-04 a delegate's question", func(t *testing.T) {
		p := newPlay(t, false)
		p.say("/delegate researcher /ask Which? [A/B] && /say took $reply\n/say $result")
		p.say("A")
		p.happened("d1 researcher: /ask Which? [A/B] && /say took $reply", "question Which?", "AWAITING_RESPONSE",
			"answered A", "m2 merged", "response m1: took A", "m1 answered", "COMPLETE")
	})
}

// Random programs on the real machine: everything ends, and each message gets
// exactly one end. N-01.
func TestRandomProgramsOnTheMachine(t *testing.T) {
	lines := []string{
		"/say A", "/partial B", "/parts C | D", "/ask E?", "/askopen What is F?", "/askopen Which? [A/B]", "/say $reply", "/partial $result",
		"/tool clock {}", "/tool none", "/delegate researcher /say G", "/delegate developer fix it", "/parallel researcher /ask H? && /say $reply || developer /partial I",
		"/stream 3 x", "/cover 1 duplicate", "/cover 2 dismissed", "/amend 1 /say J", "/ignore", "/empty", "/noreply", "/fail 500 2", "/fail 429", "/wait 1s", "/loop", "nonsense",
	}
	plain := []string{"Fix the login bug", "Actually use OAuth instead", "Set up auth", "JWT", "Send the report to Max", "What's the weather?", "1+1", "hello", "blue"}
	seed := rand.Uint64()
	if s := os.Getenv("PARLEY_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	random := rand.New(rand.NewPCG(seed, 1))
	for round := range 300 {
		p := newPlay(t, round%2 == 0)
		var program []string
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
