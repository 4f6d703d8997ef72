package scripted

import (
	"strconv"
	"testing"

	"parley/conversation"
)

// D-01: plain messages that one step reads are answered in their order, each by
// name; those with directives newest first.
func TestOrder(t *testing.T) {
	const (
		hello   = `Hello! I am a scripted demo model: rules, not AI. Say "help" to see what I understand.`
		welcome = "You are welcome."
		bye     = "Goodbye!"
		sum     = "The calculator says: <1+1>"
		other   = "The calculator says: <2+2>"
		weather = "I cannot tell you the weather: no weather tool is configured here."
		fixed   = "The login bug is fixed: the session is renewed after sign-in. (The scripted developer changed no code.)"
	)
	said := func(quote string) string {
		return "You said: " + quote + `. I am a scripted demo model: rules, not AI. Say "help" to see what I understand.`
	}
	cases := []struct {
		name string
		say  []string
		want []string
	}{
		{"D-01 three plain messages", []string{"hello", "1+1", "thanks"}, []string{
			"partial m1: " + hello, "m1 answered", "partial m2: " + sum, "m2 answered",
			"response m3: " + welcome, "m3 answered", "COMPLETE",
		}},
		{"D-01 the same message again", []string{"hello", "hello", "hello"}, []string{
			"partial m1: " + hello, "m1 answered", "partial m2: " + hello, "m2 answered",
			"partial m3: " + hello, "m3 answered", "response again m3: " + hello, "COMPLETE",
		}},
		{"D-01 two sums: half of what the second answer says stands in the first", []string{"1+1", "2+2"}, []string{
			"partial m1: " + sum, "m1 answered", "partial m2: " + other, "m2 answered",
			"response again m2: " + other, "COMPLETE",
		}},
		{"D-01 two texts that no rule knows", []string{"foo", "bar"}, []string{
			"partial m1: " + said("foo"), "m1 answered", "partial m2: " + said("bar"), "m2 answered",
			"response again m2: " + said("bar"), "COMPLETE",
		}},
		{"D-01 the last one is answered by a part", []string{"thanks", "What's the weather?"}, []string{
			"partial m1: " + welcome, "m1 answered", "partial m2: " + weather, "m2 answered",
			"response again m2: " + weather, "COMPLETE",
		}},
		{"D-18 both read at once", []string{"Fix the login bug", "What's the weather?"}, []string{
			"partial m2: " + weather, "m2 answered", "d1 developer: Fix the login bug",
			"response m1: " + fixed, "m1 answered", "COMPLETE",
		}},
		{"D-01 nobody waits for a delegate to be greeted", []string{"hello", "Fix the login bug", "bye"}, []string{
			"partial m1: " + hello, "m1 answered", "partial m3: " + bye, "m3 answered",
			"d1 developer: Fix the login bug", "response m2: " + fixed, "m2 answered", "COMPLETE",
		}},
		{"directives go newest first, between the plain ones too", []string{"hello", "/say A", "/say B", "thanks"}, []string{
			"partial m1: " + hello, "m1 answered", "partial m3: B", "m3 answered",
			"partial m2: A", "m2 answered", "response m4: " + welcome, "m4 answered", "COMPLETE",
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newPlay(t, true)
			w.say(c.say...).release()
			w.happened(c.want...)
			w.named()
		})
	}
	t.Run("D-01 one that comes while the first is answered in words like its own", func(t *testing.T) {
		w := newPlay(t, false)
		w.manual = true
		w.say("foo")
		w.say("bar")
		for range 3 {
			w.step()
		}
		w.happened("partial m1: "+said("foo"), "m1 answered", "partial m2: "+said("bar"), "m2 answered",
			"response again m2: "+said("bar"), "COMPLETE")
		if n := w.nudges(); n > 0 {
			t.Errorf("%d nudges were needed", n)
		}
	})
	meanwhile := func(w *play, texts ...string) func(string) string { // they come while the tool runs
		return func(string) string {
			for _, text := range texts {
				w.said++
				w.Tell(w.key, conversation.Say{Author: "u", Via: w.via(), ClientMsgID: conversation.ClientMsgID(strconv.Itoa(w.said)), Text: text}, nil)
			}
			return "12:00"
		}
	}
	t.Run("D-01 one whose tool has run goes before those that came meanwhile", func(t *testing.T) {
		w := newPlay(t, false)
		w.tool("clock", meanwhile(w, "1+1", "2+2", "thanks"))
		w.say("time")
		w.happened("partial m1: The clock says: 12:00", "m1 answered", "partial m2: "+sum, "m2 answered",
			"partial m3: "+other, "m3 answered", "response m4: "+welcome, "m4 answered", "COMPLETE")
		w.named()
	})
	t.Run("D-18 one that came while a tool ran goes before a delegate's answer", func(t *testing.T) {
		w := newPlay(t, true)
		w.tool("clock", meanwhile(w, "hello"))
		w.say("Fix the login bug", "time").release()
		w.happened("partial m2: The clock says: 12:00", "m2 answered", "partial m3: "+hello, "m3 answered",
			"d1 developer: Fix the login bug", "response m1: "+fixed, "m1 answered", "COMPLETE")
		w.named()
	})
	t.Run("D-01 one that comes while others wait goes behind them", func(t *testing.T) {
		w := newPlay(t, false)
		w.manual = true
		w.say("hello", "1+1", "thanks")
		w.step()
		w.say("bye")
		for range 4 {
			w.step()
		}
		w.happened("partial m1: "+hello, "m1 answered", "partial m2: "+sum, "m2 answered",
			"partial m3: "+welcome, "m3 answered", "response m4: "+bye, "m4 answered", "COMPLETE")
		w.named()
	})
}

// named checks that no part before the response needed a guess whom it answers.
func (p *play) named() {
	p.t.Helper()
	for _, e := range p.session().Events() {
		if b, is := e.Body.(conversation.PartialResponse); is && b.Guessed {
			p.t.Errorf("nobody named whom %q answers", b.Text)
		}
	}
	if n := p.nudges(); n > 0 {
		p.t.Errorf("%d nudges were needed", n)
	}
}
