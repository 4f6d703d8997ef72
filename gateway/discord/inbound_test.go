package discord

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/gateway/chat"
	"parley/gateway/discord/discordtest"
)

const (
	ann     = discordtest.Ann
	bob     = discordtest.Bob
	general = discordtest.General
	dm      = discordtest.DM
	thread  = "3100"
)

var atBot = discordtest.Mention(discordtest.Bot)

// What people write becomes updates.
func TestMessages(t *testing.T) {
	bang := "<@!" + discordtest.Bot + ">"
	for _, c := range []struct {
		name    string
		channel string
		user    string
		text    string
		change  []func(*discordtest.Posting)
		want    chat.Update // of the fields that are set here
		ignored bool
	}{
		{name: "in private everything is meant for the bot", channel: dm, user: ann, text: "Hello",
			want: chat.Update{Chat: dm, Text: "Hello", Addressed: true, From: chat.Person{ID: ann, Name: "Ann Lee", Handle: "ann"}}},
		{name: "in a group not", channel: general, user: bob, text: "Hello",
			want: chat.Update{Chat: general, Text: "Hello", Group: true, Workspace: discordtest.Guild, Title: "#general", From: chat.Person{ID: bob, Name: "Bob", Handle: "bob"}}},
		{name: "mentioned at the beginning", channel: general, user: ann, text: atBot + " Hello", want: chat.Update{Text: "Hello", Addressed: true, Group: true}},
		{name: "with a comma", channel: general, user: ann, text: bang + ", hello", want: chat.Update{Text: "hello", Addressed: true, Group: true}},
		{name: "at the end", channel: general, user: ann, text: "Hello " + atBot, want: chat.Update{Text: "Hello", Addressed: true, Group: true}},
		{name: "in between", channel: general, user: ann, text: "Hi " + atBot + ", hello", want: chat.Update{Text: "Hi @parley, hello", Addressed: true, Group: true}},
		{name: "alone", channel: general, user: ann, text: atBot, want: chat.Update{Addressed: true, Group: true}},
		{name: "others are named", channel: dm, user: ann, text: "Ask " + discordtest.Mention(bob) + " in <#" + general + "> <:party:123> <@777>",
			want: chat.Update{Text: "Ask @Bob in #general :party: <@777>", Addressed: true}},
		{name: "files", channel: dm, user: ann, text: "See", change: []func(*discordtest.Posting){discordtest.Attach("a.png", "image/png", 2048)},
			want: chat.Update{Text: "See", Addressed: true, Files: []chat.File{{Name: "a.png", Type: "image/png", Bytes: 2048}}}},
		{name: "a voice message", channel: dm, user: ann, change: []func(*discordtest.Posting){discordtest.Attach("voice.ogg", "audio/ogg", 9), func(m *discordtest.Posting) { m.Flags = 1 << 13 }},
			want: chat.Update{Addressed: true, Files: []chat.File{{Name: "voice.ogg", Type: "voice message, audio/ogg", Bytes: 9}}}},
		{name: "a sticker", channel: dm, user: ann, change: []func(*discordtest.Posting){func(m *discordtest.Posting) { m.Sticker = "Wave" }},
			want: chat.Update{Addressed: true, Files: []chat.File{{Name: "Wave", Type: "sticker"}}}},
		{name: "a thread is a chat of its own, admitted with its channel", channel: thread, user: ann, text: atBot + " Hi",
			want: chat.Update{Chat: thread, Allowed: general, Text: "Hi", Addressed: true, Group: true, Title: "Plans"}},
		{name: "bots are not heard", channel: dm, user: discordtest.OtherBot, text: "Hello", ignored: true},
		{name: "nor webhooks", channel: dm, user: ann, text: "Hello", change: []func(*discordtest.Posting){func(m *discordtest.Posting) { m.Webhook = true }}, ignored: true},
		{name: "nor what Discord says itself", channel: general, user: ann, change: []func(*discordtest.Posting){func(m *discordtest.Posting) { m.Type = 7 }}, ignored: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := alone(t)
			w.fake.AddChannel(discordtest.Place{ID: thread, Guild: discordtest.Guild, Parent: general, Name: "Plans", Type: discordtest.TypeThread})
			w.run()
			id := w.fake.Say(c.channel, c.user, c.text, c.change...)
			w.fake.Say(c.channel, bob, "behind it")
			got := w.desk.wait(t, 1)
			if c.ignored {
				if got.Text != "behind it" {
					t.Errorf("it was taken: %+v", got)
				}
				return
			}
			if got.Kind != chat.Said || got.Name != chat.MessageName(id) || got.Command || time.Since(got.At) > time.Minute {
				t.Errorf("the update is %+v", got)
			}
			if d, err := where(got.To); err != nil || d.Channel != c.channel {
				t.Errorf("answers go to %s", got.To)
			}
			have := got
			have.Kind, have.Name, have.At, have.To = 0, "", time.Time{}, nil
			for _, f := range []func(*chat.Update, *chat.Update){
				func(h, w *chat.Update) {
					if w.Chat == "" {
						h.Chat, h.Workspace, h.Title, h.From = "", "", "", chat.Person{}
					}
				},
				func(h, w *chat.Update) {
					if w.From.ID == "" {
						h.From, h.Workspace = chat.Person{}, ""
					}
				},
			} {
				f(&have, &c.want)
			}
			if !reflect.DeepEqual(have, c.want) {
				t.Errorf("got  %+v\nwant %+v", have, c.want)
			}
		})
	}
}

// A reply to the bot is meant for it, and says to which message.
func TestReplies(t *testing.T) {
	w := together(t)
	posted, err := w.bot.Send(t.Context(), to(general), chat.Outgoing{Text: "For how many?"})
	if err != nil {
		t.Fatal(err)
	}
	w.fake.Say(general, ann, "Four", discordtest.Reply(string(posted.Name)))
	other := w.fake.Say(general, bob, "I come, too")
	w.fake.Say(general, ann, "Good", discordtest.Reply(other))
	u := w.desk.wait(t, 3)
	all := w.desk.all()
	if !all[0].Addressed || all[0].ReplyTo != posted.Name {
		t.Errorf("a reply to the bot: %+v", all[0])
	}
	if u.Addressed || string(u.ReplyTo) != other {
		t.Errorf("a reply to somebody else: %+v", u)
	}
}

// In a thread where the bot has spoken everything is meant for it, also after a restart.
func TestThreads(t *testing.T) {
	w := alone(t)
	for _, id := range []string{thread, "3101", "3102"} {
		w.fake.AddChannel(discordtest.Place{ID: id, Guild: discordtest.Guild, Parent: general, Type: discordtest.TypeThread})
	}
	w.desk.known = []chat.KnownChat{{Chat: thread, To: to(thread)}, {Chat: general, To: to(general)}}
	w.run()
	if _, err := w.bot.Send(t.Context(), to("3101"), chat.Outgoing{Text: "Hi"}); err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{thread: true, "3101": true, "3102": false, general: false}
	for channel := range want {
		w.fake.Say(channel, bob, "Hello")
	}
	w.desk.wait(t, 4)
	for _, u := range w.desk.all() {
		if u.Addressed != want[u.Chat] {
			t.Errorf("in %s: addressed is %v", u.Chat, u.Addressed)
		}
	}
}

func TestEditsAndDeletions(t *testing.T) {
	w := together(t)
	id := w.fake.Say(dm, ann, "Book a tabel")
	w.fake.Unfold(id) // no edit
	w.fake.Edit(id, "Book a table")
	w.fake.Unfold(id) // the same edit again
	w.fake.Delete(id)
	w.fake.Delete(w.fake.Say(dm, ann, "Never mind"))
	w.desk.wait(t, 5)
	want := []string{"message 4000: Book a tabel", "edit 4000: Book a table", "deletion 4000:", "message 4000: Never mind", "deletion 4000:"}
	if got := w.desk.lines(); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	for _, u := range w.desk.all()[:3] {
		if string(u.Name) != id {
			t.Errorf("%s is of %s, not %s", u.Kind, u.Name, id)
		}
	}
}

func TestLeft(t *testing.T) {
	w := alone(t)
	in := func(channel, parent, guild string) chat.KnownChat {
		return chat.KnownChat{Chat: channel, To: destination{Channel: channel, Parent: parent, Guild: guild}.address()}
	}
	w.fake.AddChannel(discordtest.Place{ID: "3001", Guild: discordtest.Guild})
	w.desk.known = []chat.KnownChat{
		in(general, "", discordtest.Guild), in(thread, general, discordtest.Guild), in("3001", "", discordtest.Guild),
		in(dm, "", ""), in("6000", "", "2999"),
	}
	w.run()
	if got := w.desk.wait(t, 1); got.Kind != chat.Left || got.Chat != "6000" {
		t.Errorf("a server that the bot was taken off while it was away: %+v", got)
	}
	w.fake.DeleteChannel(general)
	w.desk.wait(t, 3)
	w.fake.Leave(discordtest.Guild, true) // an outage
	w.fake.Leave(discordtest.Guild, false)
	w.desk.wait(t, 6)
	got := w.desk.lines()
	slices.Sort(got[1:3])
	slices.Sort(got[3:])
	want := []string{"left 6000:", "left 3000:", "left 3100:", "left 3000:", "left 3001:", "left 3100:"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// A command is acknowledged at once, and answered to who gave it.
func TestSlashCommands(t *testing.T) {
	w := alone(t)
	long := strings.Repeat("A line of the answer.\n", 200)
	w.desk.answer = func(u chat.Update) error {
		switch u.Text {
		case "/status":
			return u.Reply(t.Context(), "Nothing is being worked on.")
		case "/help":
			return u.Reply(t.Context(), long)
		}
		return nil
	}
	w.run()
	status := w.fake.Command(ann, general, "status", "")
	help := w.fake.Command(ann, dm, "help", "")
	ask := w.fake.Command(bob, general, "ask", "What time is it? @everyone")
	w.desk.wait(t, 3)
	w.until("all are answered", func() bool {
		return w.fake.Answered(status).Answer != "" && len(w.fake.Answered(help).Whispers) == 2 && len(w.fake.Answered(ask).Public) == 1
	})
	if got := w.fake.Answered(status); got.Answer != "Nothing is being worked on." || !got.Private || got.Kind != 5 || got.Public != nil {
		t.Errorf("status: %+v", got)
	}
	if got := w.fake.Answered(help); strings.Join(append([]string{got.Answer}, got.Whispers...), "\n") != strings.TrimSpace(long) {
		t.Errorf("help: %+v", got)
	}
	if got := w.fake.Answered(ask); got.Answer != "Taken." || got.Public[0] != "Bob asks: What time is it? @everyone" {
		t.Errorf("ask: %+v", got)
	}
	for _, u := range w.desk.all() {
		if u.Chat == general && u.From.ID == bob && (!u.Command || !u.Addressed || u.Text != "/ask What time is it? @everyone" || string(u.Name) != "cmd:"+ask || u.Kind != chat.Said || !u.Group || u.Workspace != discordtest.Guild) {
			t.Errorf("the update is %+v", u)
		}
	}
}

func TestPresses(t *testing.T) {
	w := alone(t)
	w.desk.answer = func(u chat.Update) error {
		if u.Kind == chat.Pressed {
			return u.Reply(t.Context(), "This question is not open any more.")
		}
		return nil
	}
	w.run()
	posted, err := w.bot.Send(t.Context(), to(general), chat.Outgoing{Text: "For how many?", Choices: []chat.Choice{{Label: "2", Token: "q1.0"}, {Label: "4", Token: "q1.1"}}})
	if err != nil {
		t.Fatal(err)
	}
	id, err := w.fake.Press(ann, string(posted.Name), "4")
	if err != nil {
		t.Fatal(err)
	}
	w.fake.Again(1)
	w.fake.Say(general, ann, "behind")
	w.desk.wait(t, 2)
	u := w.desk.all()[0]
	if u.Kind != chat.Pressed || u.Token != "q1.1" || string(u.Name) != "press:"+id || u.From.ID != ann || u.Chat != general {
		t.Errorf("the update is %+v", u)
	}
	if n := len(w.fake.Requests("POST", "interactions/")); n != 1 {
		t.Errorf("it was acknowledged %d times", n)
	}
	if got := w.fake.Answered(id); got.Kind != 6 || !slices.Equal(got.Whispers, []string{"This question is not open any more."}) || got.Public != nil {
		t.Errorf("the answer is %+v", got)
	}
}

// What was missed while nobody listened comes from the history, before what comes now, each
// once.
func TestCatchUp(t *testing.T) {
	for _, how := range []string{"restart", "lost session"} {
		t.Run(how, func(t *testing.T) {
			w := together(t)
			first := w.fake.Say(dm, ann, "one")
			w.fake.Say(general, bob, "elsewhere, and never known")
			w.desk.wait(t, 2)
			w.desk.set(func() { w.desk.known = []chat.KnownChat{{Chat: dm, To: to(dm), Last: chat.MessageName(first)}} })
			if how == "restart" {
				w.end()
				w.bot = w.newBot(Options{})
			}
			w.fake.Away()
			for i := range 250 {
				w.fake.Say(dm, ann, fmt.Sprintf("missed %d", i))
			}
			w.fake.Say(dm, discordtest.OtherBot, "not for anybody")
			w.fake.Say(general, bob, "missed in a chat that is not known")
			hold := make(chan struct{})
			w.fake.Fail(discordtest.Failing{Method: "GET", Path: "channels/" + dm + "/messages", Status: 200, Hold: hold, Body: "[", Times: 1})
			w.fake.Back()
			if how == "restart" {
				w.run()
			}
			w.until("it is connected again", func() bool { return w.fake.Connected() })
			w.fake.Say(dm, ann, "live")
			w.fake.Say(general, bob, "live elsewhere")
			close(hold)
			w.desk.wait(t, 2+250+2)
			var got []string
			for _, u := range w.desk.all()[2:] {
				if u.Chat == dm {
					got = append(got, u.Text)
				}
			}
			want := []string{}
			for i := range 250 {
				want = append(want, fmt.Sprintf("missed %d", i))
			}
			if want = append(want, "live"); !slices.Equal(got, want) {
				t.Errorf("got %q", got)
			}
		})
	}
}

// What waited before the connection was lost goes before what was missed, and that before what
// comes now.
func TestMissedBehindWaiting(t *testing.T) {
	w := alone(t)
	steps := make(chan struct{})
	w.desk.answer = func(u chat.Update) error {
		if u.Chat == dm {
			<-steps
		}
		return nil
	}
	w.run()
	first := w.fake.Say(dm, ann, "one")
	steps <- struct{}{}
	w.desk.wait(t, 1)
	w.desk.set(func() { w.desk.known = []chat.KnownChat{{Chat: dm, To: to(dm), Last: chat.MessageName(first)}} })
	w.fake.Say(dm, ann, "two")
	w.fake.Say(dm, ann, "three")
	w.fake.Say(general, bob, "behind them")
	w.desk.wait(t, 2)
	w.fake.Away()
	w.fake.Say(dm, ann, "four")
	w.fake.Back()
	w.until("it is connected again", w.fake.Connected)
	w.fake.Say(dm, ann, "five")
	w.fake.Say(general, bob, "behind it")
	w.desk.wait(t, 3) // all that came is in its lane
	close(steps)
	w.desk.wait(t, 7)
	var got []string
	for _, u := range w.desk.all() {
		if u.Chat == dm {
			got = append(got, u.Text)
		}
	}
	if !slices.Equal(got, []string{"one", "two", "three", "four", "five"}) {
		t.Errorf("got %q", got)
	}
}

// What the history brings is of after its edits, so that a link that unfolds later is none.
func TestMissedEdit(t *testing.T) {
	w := alone(t)
	first := w.fake.SaidBefore(dm, ann, "known", time.Hour)
	missed := w.fake.SaidBefore(dm, ann, "mised", time.Minute)
	w.fake.Edit(missed, "missed")
	w.desk.known = []chat.KnownChat{{Chat: dm, To: to(dm), Last: chat.MessageName(first)}}
	w.run()
	w.desk.wait(t, 1)
	w.fake.Unfold(missed)
	w.fake.Say(dm, ann, "live")
	w.desk.wait(t, 2)
	if got := w.desk.lines(); !slices.Equal(got, []string{"message 4000: missed", "message 4000: live"}) {
		t.Errorf("got %q", got)
	}
}

// A run that ends before it knows which chats there are leaves nothing out in the next one.
func TestCatchUpInTheNextRun(t *testing.T) {
	w := alone(t)
	first := w.fake.SaidBefore(dm, ann, "known", time.Hour)
	w.fake.SaidBefore(dm, ann, "missed", time.Minute)
	w.desk.known = []chat.KnownChat{{Chat: dm, To: to(dm), Last: chat.MessageName(first)}}
	w.desk.unknown = errors.New("the store is away")
	w.run()
	w.fake.Unreachable()
	w.until("the run has ended, and the next one is refused", func() bool { return len(w.fake.Requests("GET", "users/@me")) > 1 })
	w.desk.set(func() { w.desk.unknown = nil })
	w.fake.Back()
	if u := w.desk.wait(t, 1); u.Text != "missed" {
		t.Errorf("got %q", u.Text)
	}
}

// The history is read to a bound, and not further back than is of use.
func TestCatchUpIsBounded(t *testing.T) {
	w := alone(t)
	w.bot = w.newBot(Options{Missed: 30, MissedFor: time.Hour})
	first := w.fake.SaidBefore(dm, ann, "known", 3*time.Hour)
	w.fake.SaidBefore(dm, ann, "too old", 2*time.Hour)
	for i := range 5 {
		w.fake.SaidBefore(dm, ann, fmt.Sprint(i), 30*time.Minute)
	}
	other := w.fake.SaidBefore(general, ann, "known", time.Minute)
	for i := range 130 {
		w.fake.SaidBefore(general, ann, fmt.Sprint(i), 30*time.Second)
	}
	w.desk.known = []chat.KnownChat{{Chat: dm, To: to(dm), Last: chat.MessageName(first)}, {Chat: general, To: to(general), Last: chat.MessageName("cmd:" + other)}}
	w.run()
	w.desk.wait(t, 35)
	w.fake.Say(dm, ann, "last")
	w.fake.Say(general, ann, "last")
	w.desk.wait(t, 37)
	byChat := map[string][]string{}
	for _, u := range w.desk.all() {
		byChat[u.Chat] = append(byChat[u.Chat], u.Text)
	}
	if got := byChat[dm]; !slices.Equal(got, []string{"0", "1", "2", "3", "4", "last"}) {
		t.Errorf("in private: %q", got)
	}
	if got := byChat[general]; len(got) != 31 || got[0] != "100" || got[29] != "129" {
		t.Errorf("in the channel: %q", got)
	}
	if !strings.Contains(w.log.String(), "more messages were missed than are read of a history") {
		t.Error("the log does not say that some were left out")
	}
}

// A channel whose history cannot be read does not hold up anything.
func TestCatchUpWithoutRights(t *testing.T) {
	for _, status := range []int{200, 403, 404} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			w := alone(t)
			first := w.fake.SaidBefore(dm, ann, "known", time.Hour)
			if status == 200 {
				w.fake.HideHistory()
			} else {
				w.fake.Fail(discordtest.Failing{Method: "GET", Path: "channels/" + dm + "/messages", Status: status, Code: 50001, Message: "Missing Access"})
			}
			w.desk.known = []chat.KnownChat{{Chat: dm, To: to(dm), Last: chat.MessageName(first)}}
			w.run()
			w.fake.Say(dm, ann, "live")
			w.desk.wait(t, 1)
		})
	}
}

// A message that could not be taken is given again, and those behind it wait.
func TestTakenAgain(t *testing.T) {
	w := alone(t)
	tries := 0
	w.desk.answer = func(u chat.Update) error {
		if u.Text == "one" {
			if tries++; tries < 2 {
				return errors.New("the store is away")
			}
		}
		return nil
	}
	w.run()
	w.fake.Say(dm, ann, "one")
	w.fake.Say(dm, ann, "two")
	w.desk.wait(t, 2)
	if got := w.desk.lines(); !slices.Equal(got, []string{"message 4000: one", "message 4000: two"}) || tries != 2 {
		t.Errorf("got %q after %d tries", got, tries)
	}
}

// What waits when a run ends is given on by the next one.
func TestWaitingOutlivesARun(t *testing.T) {
	w := alone(t)
	hold := make(chan struct{})
	w.desk.hold = hold
	w.run()
	w.fake.Say(dm, ann, "one")
	w.fake.Say(dm, ann, "two")
	w.fake.Refuse(4014)
	w.until("both wait", func() bool {
		w.bot.mu.Lock()
		defer w.bot.mu.Unlock()
		return w.bot.queued == 2 || pulse(w)
	})
	w.fake.Disconnect(4009)
	if err := <-w.ends; failure(err) != chat.Credentials {
		t.Fatalf("the run ended with %v", err)
	}
	w.ends <- nil
	close(hold)
	w.run()
	w.desk.wait(t, 2)
	if got := w.desk.lines(); !slices.Equal(got, []string{"message 4000: one", "message 4000: two"}) {
		t.Errorf("got %q", got)
	}
}

// pulse has a fake look again: the bot's own state changes without a word to it.
func pulse(w *world) bool {
	go w.fake.Beat()
	return false
}

// One chat that is slow does not hold up another one, and more than a lane holds comes from the
// history when it is done.
func TestSlowChat(t *testing.T) {
	w := alone(t)
	steps := make(chan struct{})
	w.desk.answer = func(u chat.Update) error {
		if u.Chat == dm {
			<-steps
		}
		return nil
	}
	w.run()
	n := maxLane + 150
	for i := range n {
		w.fake.Say(dm, ann, fmt.Sprint(i))
	}
	w.fake.Say(general, bob, "fast")
	if u := w.desk.wait(t, 1); u.Text != "fast" {
		t.Fatalf("got %q first", u.Text)
	}
	for range 100 {
		steps <- struct{}{}
	}
	w.fake.Say(dm, ann, fmt.Sprint(n)) // there is room in the lane, but not for this one
	w.fake.Say(general, bob, "fast, too")
	w.desk.wait(t, 102)
	close(steps)
	w.desk.wait(t, n+3)
	next := 0
	for _, u := range w.desk.all() {
		if u.Chat != dm {
			continue
		}
		if u.Text != fmt.Sprint(next) {
			t.Fatalf("at %d came %q", next, u.Text)
		}
		next++
	}
	if n := len(w.fake.Requests("GET", "channels/"+dm+"/messages")); n > 3 {
		t.Errorf("the history was read %d times", n)
	}
}
