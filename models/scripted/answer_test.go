package scripted

import (
	"slices"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/policy"
)

// N-12: the scripted model drives every feature: each directive, alone and in programs.
func TestDirectives(t *testing.T) {
	cases := []struct {
		name string
		say  []string // messages that are there when the task starts
		want []string
	}{
		{"say is the final answer", []string{"/say hi there"}, []string{"text hi there", "end"}},
		{"say with lines left", []string{"/say one\n/say two"}, []string{"partial m1: one", "text two", "end"}},
		{"say without text", []string{"/say"}, []string{"text I cannot follow line 1: it is used as /say TEXT.", "end"}},
		{"blank lines and carriage returns", []string{"\r\n/partial a\r\n\r\n/say b\r\n"}, []string{"partial m1: a", "text b", "end"}},
		{"a line that is no directive", []string{"/partial a\nthanks"}, []string{"partial m1: a", `text I cannot follow line 2: "thanks" is not a directive.`, "end"}},
		{"an unknown directive further down", []string{"/partial a\n/dance"}, []string{"partial m1: a", "text I cannot follow line 2: there is no directive /dance.", "end"}},
		{"the newest message goes first", []string{"/say old", "/say new"}, []string{"partial m2: new", "text old", "end"}},
		{"partial", []string{"/partial A"}, []string{"partial m1: A", "nothing", "end"}},
		// D-08: any number of parts in one task.
		{"partial many times", []string{"/partial A\n/partial B\n/say C"}, []string{"partial m1: A", "partial m1: B", "text C", "end"}},
		// M-21: blank items are items of the answer; the engine drops them.
		{"parts", []string{"/parts A | B b |  | C"}, []string{"text A", "text B b", "text ", "text C", "end"}},
		{"parts of nothing", []string{"/parts"}, []string{"text ", "nudge", "nothing", "end"}},
		{"text with lines left", []string{"/stream 2 ha\n/parts A | B\n/noreply\n/say z"}, []string{"text ha ha", "text A", "text B", "no reply", "text z", "end"}},
		{"stream", []string{"/stream 3 ha"}, []string{"text ha ha ha", "end"}},
		{"stream of too much", []string{"/stream 100001 ha"}, []string{"text I cannot follow line 1: /stream answers at most 100000 words and 1048576 bytes.", "end"}},
		{"stream of two words", []string{"/stream 3 ha hi"}, []string{"text I cannot follow line 1: it is used as /stream N WORD.", "end"}},
		{"tool", []string{`/tool calculate {"expression":"1+1"}` + "\n/say it is $result"}, []string{`tool calculate {"expression":"1+1"} -> <1+1>`, "text it is <1+1>", "end"}},
		{"tool without arguments", []string{"/tool clock\n/say $result o'clock"}, []string{"tool clock {} -> 12:00", "text 12:00 o'clock", "end"}},
		{
			"results inside of JSON are escaped", []string{"/tool echo {}\n/tool calculate {\"expression\":\"$result\"}\n/say $result"},
			[]string{"tool echo {} -> a\"b\\c\n<d>", `tool calculate {"expression":"a\"b\\c\n<d>"} -> <a"b\c` + "\n<d>>", "text <a\"b\\c\n<d>>", "end"},
		},
		{"a tool that is not there", []string{"/tool nothing {}\n/say $result"}, []string{`tool nothing {} -> error: there is no tool "nothing"`, `text error: there is no tool "nothing"`, "end"}},
		{"result without a call stays a word", []string{"/say $result and $reply, $1 $text $resulting"}, []string{"text $result and $reply, $1 $text $resulting", "end"}},
		{"a result is not read again", []string{"/tool dollars {}\n/say $result"}, []string{"tool dollars {} -> $result $reply", "text $result $reply", "end"}},
		{"delegate", []string{"/delegate researcher /say found it\n/say $result"}, []string{"delegate d1 researcher: /say found it", "text found it", "end"}},
		{
			"a delegate's program", []string{"/delegate researcher /tool clock {} && /wait 1s && /say at $result\n/say $result"},
			[]string{"delegate d1 researcher: /tool clock {} && /wait 1s && /say at $result", "text at 12:00", "end"},
		},
		{
			"a delegate is given the results of before", []string{"/tool clock {}\n/delegate researcher /partial $result && /tool calculate {\"expression\":\"2\"} && /say $result\n/say $result"},
			[]string{"tool clock {} -> 12:00", `delegate d1 researcher: /partial 12:00 && /tool calculate {"expression":"2"} && /say $result`, "text <2>", "end"},
		},
		{
			"parallel", []string{"/parallel researcher /say A || developer /say B\n/say $result"},
			[]string{"delegate d1 researcher: /say A", "delegate d2 developer: /say B", "text [d1 researcher] A\n[d2 developer] B", "end"},
		},
		{"parallel without a job", []string{"/parallel researcher"}, []string{"text I cannot follow line 1: it is used as /parallel AGENT TEXT || AGENT TEXT.", "end"}},
		{"cover goes with the next line", []string{"/say A", "/cover 1 duplicate\n/say B"}, []string{"cover m1 duplicate", "partial m2: B", "text A", "end"}},
		{"cover alone goes with another message", []string{"/say A", "/cover 2 dismissed"}, []string{"cover m2 dismissed", "text A", "end"}},
		{"cover as amendment", []string{"/cover 1 amendment\n/say B"}, []string{"cover m1 amendment", "text B", "end"}},
		{"cover of a message that is not open", []string{"/cover 7 amendment\n/say B"}, []string{"cover 7 amendment", "text B", "nothing", "nudge", "nothing", "end"}},
		{"cover as something else", []string{"/cover 1 answer"}, []string{"text I cannot follow line 1: it is used as /cover N amendment|duplicate|dismissed.", "end"}},
		{"amend without a delegation", []string{"/amend 1 x\n/say y"}, []string{"amend 1: x", "text y", "end"}},
		{"ignore", []string{"/ignore"}, []string{"nothing", "nudge", "nothing", "end"}},
		{"ignore ends the program", []string{"/partial A\n/ignore\n/say B"}, []string{"partial m1: A", "nothing", "end"}},
		{"ignore leaves the others alone", []string{"/say A", "/ignore\n/say B"}, []string{"text A", "nudge", "cover 1 answered", "nudge", "nothing", "end"}},
		// D-21, D-23: an empty answer meets the coverage guard, which nudges once.
		{"empty", []string{"/empty"}, []string{"nothing", "nudge", "nothing", "end"}},
		{"empty, then an answer", []string{"/empty\n/say A"}, []string{"nothing", "nudge", "text A", "end"}},
		{"no reply", []string{"/noreply"}, []string{"no reply", "end"}},
		{"fail", []string{"/fail 429\n/say A"}, []string{"fail 429", "text A", "end"}},
		{"fail many times", []string{"/fail 500 2\n/fail timeout\n/say A"}, []string{"fail 500", "fail 500", "fail timeout", "text A", "end"}},
		{"fail in the middle", []string{"/partial A\n/fail truncated\n/say B"}, []string{"partial m1: A", "fail truncated", "text B", "end"}},
		{"fail at the end", []string{"/say A", "/fail 500"}, []string{"fail 500", "text A", "nudge", "cover 1 answered", "nudge", "fail 500", "nothing", "end"}},
		{"fail at the end is over", []string{"/fail 500"}, []string{"fail 500", "nothing", "nudge", "nothing", "end"}},
		{"fail of an unknown kind", []string{"/fail often"}, []string{"text I cannot follow line 1: it is used as /fail KIND [N], KIND being 429, 500, timeout or truncated and N at most 1000.", "end"}},
		// D-07: what a model says beside its calls is shown, and goes on with them.
		{"preamble", []string{"/preamble I look\n/tool clock {}\n/say $result"}, []string{"text I look", "tool clock {} -> 12:00", "text 12:00", "end"}},
		{"preambles of a part", []string{"/preamble A\n/preamble B\n/partial C\n/say D"}, []string{"text A", "text B", "partial m1: C", "text D", "end"}},
		{"preamble of a text", []string{"/preamble A\n/say B"}, []string{"text A", "text B", "end"}},
		{"preamble of a delegation", []string{"/preamble I ask around\n/delegate researcher /say found it\n/say $result"}, []string{"text I ask around", "delegate d1 researcher: /say found it", "text found it", "end"}},
		{"preamble with a result", []string{"/tool clock {}\n/preamble it is $result\n/tool echo {}\n/say $result"}, []string{"tool clock {} -> 12:00", "text it is 12:00", "tool echo {} -> a\"b\\c\n<d>", "text a\"b\\c\n<d>", "end"}},
		{"preamble of an attempt that fails", []string{"/preamble A\n/fail 500\n/tool clock {}\n/say B"}, []string{"fail 500", "text A", "tool clock {} -> 12:00", "text B", "end"}},
		{"preamble at the end", []string{"/partial A\n/preamble B"}, []string{"partial m1: A", "text B", "end"}},
		{"preamble of nothing", []string{"/preamble"}, []string{"text I cannot follow line 1: it is used as /preamble TEXT.", "end"}},
		{"wait at the end has no call of its own", []string{"/say A\n/wait 1s"}, []string{"text A", "end"}},
		{"wait for something else", []string{"/wait long"}, []string{"text I cannot follow line 1: it is used as /wait DURATION, for example /wait 2s.", "end"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newPlay(t, false)
			w.Rules.Policy.MaxAttempts = 10
			w.tool("echo", func(string) string { return "a\"b\\c\n<d>" })
			w.tool("dollars", func(string) string { return "$result $reply" })
			w.say(c.say...).did(c.want...)
		})
	}
}

func TestWait(t *testing.T) {
	t.Run("holds for the next line", func(t *testing.T) {
		w := newPlay(t, false)
		w.say("/partial A\n/wait 1s\n/wait 500ms\n/say B")
		w.did("partial m1: A", "text B", "end")
		if !slices.Equal(w.delays, []string{"1.5s"}) {
			t.Fatalf("delays %v", w.delays)
		}
	})
	t.Run("before loop holds for its first call", func(t *testing.T) {
		w := newPlay(t, false)
		w.manual = true
		w.say("/wait 3s\n/loop")
		for range 3 {
			w.step()
		}
		w.did("tool clock {} -> 12:00", "tool clock {} -> 12:00", "tool clock {} -> 12:00")
		if !slices.Equal(w.delays, []string{"3s"}) {
			t.Fatalf("delays %v", w.delays)
		}
	})
}

// D-26: a model that never answers, and what it says at the step limit.
func TestLoop(t *testing.T) {
	t.Run("nothing to say", func(t *testing.T) {
		w := newPlay(t, false)
		w.Rules.Policy.MaxSteps, w.manual = 3, true
		w.say("/loop")
		w.say("/say hello")
		for range 4 {
			w.step()
		}
		w.did("tool clock {} -> 12:00", "partial m2: hello", "tool clock {} -> 12:00", "tool clock {} -> 12:00")
		w.step()
		w.did("tool clock {} -> 12:00", "partial m2: hello", "tool clock {} -> 12:00", "tool clock {} -> 12:00", "nothing", "end")
		if !w.last.WrapUp || len(w.last.Tools) > 0 {
			t.Errorf("the last call was %+v", w.last)
		}
	})
	t.Run("something that was read before", func(t *testing.T) {
		w := newPlay(t, false)
		w.Rules.Policy.MaxSteps, w.manual = 1, true
		w.say("/loop")
		w.say("/partial late", "/say hello")
		for range 3 {
			w.step()
		}
		w.did("tool clock {} -> 12:00", "partial m3: hello", "text late", "end")
	})
}

// D-13, D-14, R-14: blocking questions, any number of rounds.
func TestAsk(t *testing.T) {
	w := newPlay(t, false)
	w.say("/ask Which one? [red/light blue]\n/say $reply it is\n/ask Sure?\n/say $reply then")
	w.say("red")
	w.say("yes")
	w.did("ask true: Which one? [red light blue]", "partial m1: red it is", "ask true: Sure? []", "text yes then", "end")
}

// D-15, D-16, N-04: questions that do not block.
func TestAskOpen(t *testing.T) {
	t.Run("work goes on", func(t *testing.T) {
		w := newPlay(t, false)
		w.say("/askopen Which? [A/B]\n/partial working\n/say $reply")
		w.did("ask false: Which? [A B]", "partial m1: working", "nothing")
		w.answer("q1", "B")
		w.did("ask false: Which? [A B]", "partial m1: working", "nothing", "text B", "end")
	})
	t.Run("a plain message with a choice answers it", func(t *testing.T) {
		w := newPlay(t, false)
		w.say("/askopen Which auth? [OAuth/JWT]\n/say so $reply")
		w.say("I think jwt, please")
		w.did("ask false: Which auth? [OAuth JWT]", "nothing", "cover m2 answer: Which auth?", "text so JWT", "end")
	})
	t.Run("a plain message without any rule answers a question without choices", func(t *testing.T) {
		w := newPlay(t, false)
		w.say("/askopen What is it called?\n/say so $reply")
		w.say("Rumpelstiltskin")
		w.did("ask false: What is it called? []", "nothing", "cover m2 answer: What is it called?", "text so Rumpelstiltskin", "end")
	})
	t.Run("something else does not", func(t *testing.T) {
		w := newPlay(t, false)
		w.say("/askopen Which? [A/B]\n/say so $reply")
		w.say("What's the weather?")
		w.say("Either A or B")
		if len(w.session().Machine.View().Questions) != 1 {
			t.Fatalf("the question is closed: %q", w.log())
		}
	})
	t.Run("several, answered in any order", func(t *testing.T) {
		w := newPlay(t, false)
		w.say("/askopen First?\n/askopen Second?\n/say got $reply")
		w.answer("q2", "two")
		w.did("ask false: First? []", "ask false: Second? []", "nothing", "text got two")
	})
	t.Run("one that expired has no answer", func(t *testing.T) {
		w := newPlay(t, false)
		w.bend = func(d *decision) {
			d.items[0].Args = strings.Replace(d.items[0].Args, "{", `{"expiresIn":"1h",`, 1)
			w.bend = nil
		}
		w.say("/askopen First?\n/say got $reply")
		w.Pass(time.Hour)
		w.did("ask false: First? []", "nothing", "text got no answer", "end")
	})
	t.Run("each group of questions has its own reply", func(t *testing.T) {
		w := newPlay(t, false)
		w.say("/askopen First?\n/partial got $reply\n/askopen Second?\n/say got $reply")
		w.answer("q1", "one")
		w.answer("q2", "two")
		w.did("ask false: First? []", "nothing", "partial m1: got one", "ask false: Second? []", "nothing", "text got two", "end")
	})
	t.Run("a question too short to be quoted is the newest one", func(t *testing.T) {
		w := newPlay(t, false)
		w.say("/askopen A?\n/say $reply")
		w.say("Rumpelstiltskin")
		w.did("ask false: A? []", "nothing", "cover m2 answer: ", "text Rumpelstiltskin", "end")
	})
	t.Run("a refused question has its refusal as reply", func(t *testing.T) {
		w := newPlay(t, false)
		w.bend = func(d *decision) {
			d.items[0].Args = strings.Replace(d.items[0].Args, "{", `{"expiresIn":"soon",`, 1)
			w.bend = nil
		}
		w.say("/askopen First?\n/say $reply")
		w.did("ask false: First? []", `text error: expiresIn must be a duration such as "10m", of 365 days at most`, "end")
	})
}

// D-18, N-08: delegations that run while other messages are answered.
func TestSlowDelegations(t *testing.T) {
	t.Run("a line without need of the result goes on, in replies", func(t *testing.T) {
		w := newPlay(t, true)
		w.say("/delegate researcher /say found\n/say after\n/say $result")
		w.say("/say hi")
		w.finish("d1")
		w.did("delegate d1 researcher: /say found", "partial m2: hi", "partial m1: after", "nothing", "text found", "end")
	})
	t.Run("D-07 parallel, one late", func(t *testing.T) {
		w := newPlay(t, true)
		w.say("/parallel researcher /say A || developer /say B\n/say $result")
		w.say("/say hi")
		w.finish("d1")
		w.finish("d2")
		w.did("delegate d1 researcher: /say A", "delegate d2 developer: /say B", "partial m2: hi", "nothing", "nothing", "text [d1 researcher] A\n[d2 developer] B", "end")
		w.happened("d1 researcher: /say A", "d2 developer: /say B", "partial m2: hi", "m2 answered",
			"response m1: [d1 researcher] A\n[d2 developer] B", "m1 answered", "COMPLETE")
	})
	t.Run("amend by number", func(t *testing.T) {
		w := newPlay(t, true)
		w.say("/parallel researcher /say A || developer /say B\n/say $result")
		w.say("/amend 2 /say C\n/cover 2 amendment")
		w.finish("d2")
		w.finish("d1")
		w.did("delegate d1 researcher: /say A", "delegate d2 developer: /say B", "amend d2: /say C", "cover m2 amendment", "nothing", "text [d1 researcher] A\n[d2 developer] C", "end")
	})
	t.Run("a call without a result yet", func(t *testing.T) {
		w := newPlay(t, false)
		w.manual = true
		w.say("/tool clock {}\n/say it is $result")
		w.step()
		w.did("tool clock {} -> 12:00")
		r, _ := w.session().Request()
		r.Entries = slices.Clone(r.Entries)
		r.Entries[len(r.Entries)-1].Text = conversation.NoResult
		if d := w.script.answer(&r); len(d.items) > 0 {
			t.Fatalf("%+v", d.items)
		}
	})
	t.Run("a delegation that failed late", func(t *testing.T) {
		w := newPlay(t, true)
		w.say("/delegate researcher /say A\n/say it: $result")
		w.say("/say hi")
		w.do(conversation.DelegationDone{Delegation: "d1", Status: conversation.CallTimeout, Summary: "the delegation did not finish in time"})
		if last := w.log()[len(w.log())-2]; last != "text it: timeout: the delegation did not finish in time" {
			t.Fatal(last)
		}
	})
}

// The worked examples, word for word, with zero nudges (D-23).
func TestWorkedExamples(t *testing.T) {
	const (
		fixed   = "The login bug is fixed: the session is renewed after sign-in. (The scripted developer changed no code.)"
		weather = "I cannot tell you the weather: no weather tool is configured here."
		which   = "Which auth provider, OAuth or JWT?"
		sent    = "The report is sent to Max. (The scripted communicator sent nothing.)"
		changed = fixed + " Changed on the way: Actually use OAuth instead."
	)
	t.Run("D-18 two independent tasks", func(t *testing.T) {
		w := newPlay(t, true)
		w.say("Fix the login bug")
		w.say("What's the weather?")
		w.finish("d1")
		w.did("delegate d1 developer: Fix the login bug", "partial m2: "+weather, "nothing", "text "+fixed, "end")
		w.happened("d1 developer: Fix the login bug", "partial m2: "+weather, "m2 answered", "response m1: "+fixed, "m1 answered", "COMPLETE")
		if !slices.Equal(w.delays, []string{"200ms"}) {
			t.Fatalf("the developer takes %v", w.delays)
		}
	})
	t.Run("D-17 amendment", func(t *testing.T) {
		w := newPlay(t, true)
		w.say("Fix the login bug")
		w.say("Actually use OAuth instead")
		w.finish("d1")
		w.did("delegate d1 developer: Fix the login bug", "amend d1: Actually use OAuth instead", "cover m2 amendment", "nothing",
			"text "+changed, "end")
		w.happened("d1 developer: Fix the login bug", "m2 merged", "response m1: "+changed, "m1 answered", "COMPLETE")
	})
	t.Run("D-17 both read at once", func(t *testing.T) {
		w := newPlay(t, false)
		w.say("Fix the login bug", "Actually use OAuth instead")
		w.did("delegate d1 developer: Fix the login bug / Actually use OAuth instead", "cover m2 amendment",
			"text "+changed, "end")
	})
	t.Run("D-17 the delegation ended while the amendment was under way", func(t *testing.T) {
		w := newPlay(t, true)
		w.say("Fix the login bug")
		w.manual = true
		w.say("Actually use OAuth instead")
		w.manual = false
		asked, _ := w.session().Request()
		w.Tell(w.key, w.model(w.session(), asked), nil) // and the amendment waits
		w.finish("d1")
		w.finish("d2")
		w.did("delegate d1 developer: Fix the login bug", "amend d1: Actually use OAuth instead", "cover m2 amendment",
			"delegate d2 developer: Fix the login bug / Actually use OAuth instead", "nothing",
			"text "+changed, "end")
	})
	t.Run("D-17 the delegation ended before the amendment was read", func(t *testing.T) {
		w := newPlay(t, true)
		w.say("Fix the login bug")
		w.manual = true
		w.say("thanks")
		w.say("Actually use OAuth instead")
		w.finish("d1")
		w.manual = false
		w.step() // has not read the last one
		w.finish("d2")
		w.did("delegate d1 developer: Fix the login bug", "partial m2: You are welcome.",
			"delegate d2 developer: Fix the login bug / Actually use OAuth instead", "cover m3 amendment",
			"text "+changed, "end")
	})
	t.Run("D-17 nothing to change", func(t *testing.T) {
		w := newPlay(t, false)
		w.say("Actually use OAuth instead")
		w.did(`text There is nothing being worked on that I could change. Tell me the whole task, for example "Fix the login bug".`, "end")
	})
	for _, auth := range []string{"JWT", "OAuth"} {
		t.Run("D-19 parallel questions "+auth, func(t *testing.T) {
			w := newPlay(t, true)
			w.say("Set up auth")
			w.say("Send the report to Max")
			w.finish("d1")
			w.say(auth)
			w.finish("d2")
			w.did("ask false: "+which+" [OAuth JWT]", "nothing",
				"delegate d1 communicator: Send the report to Max", "partial m2: "+sent, "nothing",
				"cover m3 answer: "+which, "delegate d2 developer: Set up auth with "+auth,
				"text Auth is set up with "+auth+". (The scripted developer changed no code.)", "end")
			w.happened("question "+which, "AWAITING_RESPONSE",
				"d1 communicator: Send the report to Max", "partial m2: "+sent, "m2 answered", "AWAITING_RESPONSE",
				"answered "+auth, "m3 merged", "d2 developer: Set up auth with "+auth,
				"response m1: Auth is set up with "+auth+". (The scripted developer changed no code.)", "m1 answered", "COMPLETE")
		})
	}
	t.Run("D-19 the answer comes while the report is under way", func(t *testing.T) {
		w := newPlay(t, true)
		w.say("Set up auth")
		w.say("Send the report to Max")
		w.say("JWT")
		w.finish("d2")
		w.finish("d1")
		w.did("ask false: "+which+" [OAuth JWT]", "nothing",
			"delegate d1 communicator: Send the report to Max",
			"cover m3 answer: "+which, "delegate d2 developer: Set up auth with JWT",
			"partial m1: Auth is set up with JWT. (The scripted developer changed no code.)", "nothing",
			"partial m2: "+sent, "nothing", "end")
	})
	t.Run("D-19, N-04 answered by its id", func(t *testing.T) {
		w := newPlay(t, false)
		w.say("Set up auth")
		w.answer("q1", "JWT")
		w.did("ask false: "+which+" [OAuth JWT]", "nothing", "delegate d1 developer: Set up auth with JWT",
			"text Auth is set up with JWT. (The scripted developer changed no code.)", "end")
		w.happened("question "+which, "AWAITING_RESPONSE", "answered JWT", "m2 merged", "d1 developer: Set up auth with JWT",
			"response m1: Auth is set up with JWT. (The scripted developer changed no code.)", "m1 answered", "COMPLETE")
	})
	t.Run("D-17 amendment while the delegate answers", func(t *testing.T) {
		w := newPlay(t, true)
		w.say("Fix the login bug")
		w.Pass(time.Second)
		w.say("Actually use OAuth instead") // the delegate's step is open: it has not read this
		w.release()
		w.happened("d1 developer: Fix the login bug", "m2 merged", "response m1: "+changed, "m1 answered", "COMPLETE")
	})
	t.Run("D-19 the answer comes while the report is under way, and is done last", func(t *testing.T) {
		w := newPlay(t, true)
		w.say("Set up auth")
		w.say("Send the report to Max")
		w.say("JWT")
		w.release()
		if w.nudges() > 0 || !slices.Contains(w.events(), "m1 answered") || !slices.Contains(w.events(), "m2 answered") || !slices.Contains(w.events(), "m3 merged") {
			t.Fatalf("%s", strings.Join(w.events(), "\n"))
		}
	})
	t.Run("D-12 a partial answer alone is promoted", func(t *testing.T) {
		w := newPlay(t, false)
		w.say("/partial A")
		w.happened("partial m1: A", "m1 answered", "response again m1: A", "COMPLETE")
	})
	t.Run("N-04 a question asked as a tool", func(t *testing.T) {
		w := newPlay(t, false)
		w.say("/tool askUser {\"question\":\"Which?\"}\n/say got $reply")
		w.say("A")
		w.happened("question Which?", "AWAITING_RESPONSE", "answered A", "m2 merged", "response m1: got A", "m1 answered", "COMPLETE")
		w = newPlay(t, false)
		w.say("/tool askUser {\"question\":\"Which?\",\"blocking\":false}\n/say got $reply")
		w.answer("q1", "B")
		w.happened("question Which?", "AWAITING_RESPONSE", "answered B", "m2 merged", "response m1: got B", "m1 answered", "COMPLETE")
	})
	t.Run("N-04 a delegate's question", func(t *testing.T) {
		w := newPlay(t, false)
		w.say("/delegate researcher /ask Which? [A/B] && /say took $reply\n/say $result")
		w.say("A")
		w.happened("d1 researcher: /ask Which? [A/B] && /say took $reply", "question Which?", "AWAITING_RESPONSE",
			"answered A", "m2 merged", "response m1: took A", "m1 answered", "COMPLETE")
	})
	t.Run("D-18 the weather comes from a tool if there is one", func(t *testing.T) {
		w := newPlay(t, false)
		w.tool("get_weather", func(string) string { return "15 °C and sunny." })
		w.Rules.Tools["get_weather"] = policy.ToolRule{Spec: conversation.ToolSpec{
			Name: "get_weather", Schema: []byte(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`),
		}}
		w.say("What's the weather in New York?")
		w.did(`tool get_weather {"city":"New York"} -> 15 °C and sunny.`, "partial m1: The weather tool says: 15 °C and sunny.", "nothing", "end")
	})
}

func TestPlainText(t *testing.T) {
	hello := `text Hello! I am a scripted demo model: rules, not AI. Say "help" to see what I understand.`
	cases := []struct{ say, want string }{
		{"hi", hello},
		{"Hello there!", hello},
		{"thanks a lot", "text You are welcome."},
		{"Good bye", `text You said: Good bye. I am a scripted demo model: rules, not AI. Say "help" to see what I understand.`},
		{"bye", "text Goodbye!"},
		{"What did I say first?", `text The first thing you said here: "What did I say first?"`},
		{"/usr/bin is full", `text You said: /usr/bin is full. I am a scripted demo model: rules, not AI. Say "help" to see what I understand.`},
		{"/dance", `text You said: /dance. I am a scripted demo model: rules, not AI. Say "help" to see what I understand.`},
		{"12 * (3 + 4)", `tool calculate {"expression":"12 * (3 + 4)"} -> <12 * (3 + 4)>`},
		{"What is 2**10?", `tool calculate {"expression":"2**10"} -> <2**10>`},
		{"what's 1 + 1 =", `tool calculate {"expression":"1 + 1 "} -> <1 + 1 >`},
		{"calculate sqrt(2)", `tool calculate {"expression":"sqrt(2)"} -> <sqrt(2)>`},
		{"42", `text You said: 42. I am a scripted demo model: rules, not AI. Say "help" to see what I understand.`},
		{"What time is it?", "tool clock {} -> 12:00"},
		{"what time is it in Europe/Berlin?", `tool clock {"zone":"Europe/Berlin"} -> 12:00`},
		{"$result $text", `text You said: $result $text. I am a scripted demo model: rules, not AI. Say "help" to see what I understand.`},
	}
	for _, c := range cases {
		t.Run(c.say, func(t *testing.T) {
			w := newPlay(t, false)
			w.say(c.say)
			if w.log()[0] != c.want || w.nudges() > 0 {
				t.Fatalf("got %q", w.log())
			}
		})
	}
	t.Run("help", func(t *testing.T) {
		w := newPlay(t, false)
		w.say("help")
		for name := range directives() {
			if !strings.Contains(w.log()[0], "/"+name) && name != "empty" {
				t.Errorf("help does not speak of /%s", name)
			}
		}
		for _, word := range []string{"[models.NAME]", "provider", "base_url", "/empty", "rules, not AI"} {
			if !strings.Contains(w.log()[0], word) {
				t.Errorf("help does not speak of %s", word)
			}
		}
	})
	t.Run("the first thing said", func(t *testing.T) {
		w := newPlay(t, false)
		w.say("Blue is nice")
		w.say("what did I say first?")
		if got := w.log()[2]; got != `text The first thing you said here: "Blue is nice"` {
			t.Fatal(got)
		}
	})
	t.Run("without tools it says so", func(t *testing.T) {
		for say, tool := range map[string]string{"1+1": "calculate", "what time is it": "clock", "Fix the login bug": "delegate"} {
			w := newPlay(t, false)
			delete(w.Rules.Tools, tool)
			if tool == conversation.ToolDelegate {
				alone := w.Rules.Agents[conversation.Coordinator]
				alone.Delegates = false
				w.Rules.Agents[conversation.Coordinator] = alone
			}
			w.say(say)
			w.did(`text For that I would need the tool "`+tool+`", and it is not available to me here.`, "end")
		}
	})
	t.Run("messages of other tasks are no programs", func(t *testing.T) {
		w := newPlay(t, false)
		w.say("/say one")
		w.say("/say two")
		w.did("text one", "end", "text two", "end")
	})
}

// In a delegation's session.
func TestDelegate(t *testing.T) {
	t.Run("plain objectives", func(t *testing.T) {
		w := newPlay(t, false).delegate("Paint it blue")
		w.did("text Done: Paint it blue. (The scripted developer does no real work.)", "end")
		if !slices.Equal(w.delays, []string{"200ms"}) {
			t.Fatalf("%v", w.delays)
		}
	})
	t.Run("a change that was read with the objective", func(t *testing.T) { // the machine starts at once; others might not
		w := newPlay(t, false)
		w.manual = true
		w.delegate("Paint it blue")
		r, _ := w.session().Request()
		r.Open = append(r.Open, conversation.OpenMessage{Ordinal: 2, Message: "m2-s1/d1", Excerpt: "rather red"})
		r.Entries = append(slices.Clone(r.Entries), conversation.Entry{Role: conversation.RoleUser, Task: r.Task, Message: "m2-s1/d1", Text: "rather red"})
		d := w.script.answer(&r)
		if len(d.items) != 1 || d.items[0].Text != "Done: Paint it blue. (The scripted developer does no real work.) Changed on the way: rather red." {
			t.Fatalf("%+v", d.items)
		}
		r.Step, r.Open = r.Step+1, r.Open[1:]
		r.Entries = append(r.Entries, conversation.Entry{Role: conversation.RoleAssistant, Task: r.Task, ResponseID: strings.Join(d.marks, " "), Items: d.items},
			conversation.Entry{Role: conversation.RoleUser, Task: r.Task, Text: "please", Nudge: []conversation.MessageID{"m2-s1/d1"}})
		if d = w.script.answer(&r); len(d.items) > 0 {
			t.Fatalf("after a nudge: %+v", d.items)
		}
	})
	t.Run("changes after the answer was drafted", func(t *testing.T) {
		w := newPlay(t, false)
		w.manual = true
		w.delegate("Paint it blue")
		w.say("rather red", "and shiny")
		w.step()
		w.step()
		w.did("text Done: Paint it blue. (The scripted developer does no real work.)",
			"text Done: Paint it blue. (The scripted developer does no real work.) Changed on the way: rather red; and shiny.", "end")
	})
	t.Run("a program is not changed by plain words", func(t *testing.T) {
		w := newPlay(t, false)
		w.manual = true
		w.delegate("/say done")
		w.say("rather red")
		w.step()
		w.step()
		w.did("text done", "nothing", "end")
	})
	t.Run("a root session does not split at &&", func(t *testing.T) {
		w := newPlay(t, false)
		w.say("/say a && /say b")
		w.did("text a && /say b", "end")
	})
}

// The transcript is bounded: what is missing must not confuse.
func TestBoundedTranscript(t *testing.T) {
	w := newPlay(t, true)
	w.say("/delegate researcher /say found\n/say $result")
	w.say("/say hi")
	w.finish("d1")
	for cut := range w.last.Entries {
		r := w.last
		r.Entries = w.last.Entries[cut:]
		w.script.answer(&r)
	}
}

// Random text never panics, is answered with something or left to the next
// one, and the same request gets the same answer.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{"/say a\n/ask b [c/d]", "/parallel a b || c", "Set up auth", "/delegate developer /tool x {} && /say $result", "/fail 429 3\n/wait 1s", "actually", "\xff/say\xfe", "/parts |||", "calculate ((", "/loop\n/loop", "/cover 1 duplicate", "/amend 9 $reply"} {
		f.Add(seed, "JWT", uint8(0))
		f.Add(seed, seed, uint8(1))
	}
	f.Fuzz(func(t *testing.T, first, second string, depth uint8) {
		w := newPlay(t, true)
		w.manual = true
		if depth%2 == 1 {
			w.key.Session += "/d1"
			w.Tell(w.key, conversation.Tell{Agent: "developer", Owner: "u", Objective: first}, nil)
		} else {
			w.Tell(w.key, conversation.Say{Author: "u", ClientMsgID: "a", Text: first}, nil)
		}
		w.Rest()
		for range 4 {
			w.step()
		}
		w.Tell(w.key, conversation.Say{Author: "u", Via: w.via(), ClientMsgID: "b", Text: second}, nil)
		w.Rest()
		for range 6 {
			w.step()
			for _, q := range w.session().Machine.View().Questions {
				w.answer(q.Asked.Question, "yes")
			}
			if len(w.held) > 0 {
				w.letGo(w.held[0])
			}
		}
	})
}
