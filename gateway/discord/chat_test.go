package discord_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/conversation"
	"parley/conversation/chats"
	"parley/conversation/machine/machinetest"
	"parley/gateway/chat"
	"parley/gateway/discord"
	"parley/gateway/discord/discordtest"
	"parley/gateway/fanout"
	"parley/gateway/gatewaytest"
	"parley/gateway/protocol"
	"parley/metrics"
)

const patience = 30 * time.Second

// joined is a channel of the real core between the fake Discord and the machine.
type joined struct {
	t        *testing.T
	fake     *discordtest.Discord
	sessions *gatewaytest.Sessions
	store    chats.Store
	hub      *fanout.Hub
	settings chat.Settings
	stop     func() // ends the channel, as the end of its process would
}

func join(t *testing.T) *joined {
	t.Helper()
	all := []string{"*"}
	j := &joined{t: t, fake: discordtest.Start(), hub: fanout.NewHub(nil)}
	j.settings = chat.Settings{
		Tenant: "default", Overflow: chat.OverflowSplit, Allow: chat.Lists{Chats: all, Users: all, Workspaces: all}, Reactions: true, MaxWaiting: 100,
	}
	t.Cleanup(j.fake.Close)
	j.sessions = gatewaytest.NewSessions(j.hub)
	j.store = j.sessions.Memory.Chats()
	t.Cleanup(j.sessions.Close)
	return j
}

// start starts the channel, on the same store as the one before.
func (j *joined) start() {
	j.t.Helper()
	bot, err := discord.New(discord.Options{Token: discordtest.Token, APIURL: j.fake.URL})
	if err != nil {
		j.t.Fatal(err)
	}
	c := chat.New(bot, j.settings, chat.Deps{
		Engine: j.sessions, Hub: j.hub, Limits: protocol.DefaultLimits(), Store: j.store,
		Metrics: metrics.NewChats(prometheus.NewRegistry()), Logger: slog.New(slog.DiscardHandler), Refusal: conversation.AsError,
	})
	before, _ := j.fake.Connections()
	ctx, cancel := context.WithCancel(j.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	j.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			j.t.Errorf("the channel ended with %v", err)
		}
	})
	j.t.Cleanup(j.stop)
	j.until("the bot is connected", func() bool { now, _ := j.fake.Connections(); return now > before })
}

func (j *joined) until(what string, is func() bool) {
	j.t.Helper()
	ctx, cancel := context.WithTimeout(j.t.Context(), patience)
	defer cancel()
	if j.fake.Until(ctx, is) != nil {
		j.t.Fatalf("never: %s", what)
	}
}

// texts waits for what the bot has said in a channel.
func (j *joined) texts(channel string, want ...string) {
	j.t.Helper()
	j.until("the bot says "+strings.Join(want, " | "), func() bool { return len(j.fake.Texts(channel)) >= len(want) })
	if got := j.fake.Texts(channel); !slices.Equal(got, want) {
		j.t.Errorf("in %s the bot said %q, want %q", channel, got, want)
	}
}

// reacted waits for the reaction of the bot to a message.
func (j *joined) reacted(id string, want string) {
	j.t.Helper()
	j.until("the reaction "+want, func() bool { return slices.Equal(j.fake.Message(id).Reactions, []string{want}) })
}

// session is the session of a channel.
func (j *joined) session(channel string) conversation.SessionKey {
	j.t.Helper()
	row, _ := j.store.Load(j.t.Context(), chats.Key{Tenant: "default", Channel: "discord", Chat: chats.Chat("discord:" + channel)})
	if row.Session == "" {
		j.t.Fatalf("chat %s has no session", channel)
	}
	return conversation.SessionKey{Tenant: "default", Session: row.Session}
}

// bodies are what has happened in a channel's session.
func (j *joined) bodies(channel string) (list []conversation.EventBody) {
	j.t.Helper()
	for record, err := range j.sessions.Records(j.t.Context(), j.session(channel), conversation.Range{}) {
		if err != nil {
			j.t.Fatal(err)
		}
		for _, e := range record.Events {
			list = append(list, e.Body)
		}
	}
	return list
}

// A conversation from the first word to the answer, with a question in between whose buttons
// are pressed, and the next message told by a reply.
func TestConversation(t *testing.T) {
	j := join(t)
	j.start()
	first := j.fake.Say(discordtest.DM, discordtest.Ann, "Book a table")
	j.reacted(first, "👀")
	j.sessions.Model(j.session(discordtest.DM), machinetest.Call(conversation.ToolAsk, `{"question":"For how many?","choices":["2","4"],"blocking":true}`))
	j.texts(discordtest.DM, "For how many?")
	question := j.fake.Sent(discordtest.DM)[0]
	press, err := j.fake.Press(discordtest.Ann, question.ID, "4")
	if err != nil {
		t.Fatal(err)
	}
	j.until("the buttons are gone", func() bool {
		m := j.fake.Message(question.ID)
		return len(m.Buttons) == 0 && m.Content == "For how many?\n→ 4"
	})
	if got := j.fake.Answered(press); got.Kind != 6 || got.Whispers != nil {
		t.Errorf("the press was answered with %+v", got)
	}
	j.sessions.Model(j.session(discordtest.DM), machinetest.Text("Booked for **four**, @Ann Lee."))
	j.texts(discordtest.DM, "For how many?\n→ 4", "Booked for **four**, <@5000>.")
	if m := j.fake.Sent(discordtest.DM)[1]; m.PingsAll || !slices.Equal(m.Pings, []string{discordtest.Ann}) {
		t.Errorf("the answer pings %v", m.Pings)
	}
	j.reacted(first, "✅")
}

// A button may be pressed as soon as it is shown, before the bot knows that it is.
func TestPressedAtOnce(t *testing.T) {
	j := join(t)
	j.start()
	first := j.fake.Say(discordtest.DM, discordtest.Ann, "Book a table")
	j.reacted(first, "👀")
	late := make(chan struct{})
	j.fake.Fail(discordtest.Failing{Method: "POST", Path: "channels/" + discordtest.DM + "/messages", Late: late})
	j.sessions.Model(j.session(discordtest.DM), machinetest.Call(conversation.ToolAsk, `{"question":"For how many?","choices":["2","4"],"blocking":true}`))
	j.texts(discordtest.DM, "For how many?")
	press, err := j.fake.Press(discordtest.Ann, j.fake.Sent(discordtest.DM)[0].ID, "4")
	if err != nil {
		t.Fatal(err)
	}
	j.until("the press is answered", func() bool {
		for _, b := range j.bodies(discordtest.DM) {
			if a, is := b.(conversation.QuestionAnswered); is && a.Text == "4" {
				return true
			}
		}
		go j.fake.Beat() // the session says nothing to the fake: look again
		return j.fake.Answered(press).Whispers != nil
	})
	close(late)
	j.sessions.Model(j.session(discordtest.DM), machinetest.Text("Booked."))
	j.texts(discordtest.DM, "For how many?\n→ 4", "Booked.")
	if got := j.fake.Answered(press).Whispers; got != nil {
		t.Errorf("the press was answered with %q", got)
	}
}

// In a channel the bot answers who means it, by replies, and commands work for everybody.
func TestGroup(t *testing.T) {
	j := join(t)
	j.start()
	j.fake.Say(discordtest.General, discordtest.Bob, "Nobody means the bot")
	asked := j.fake.Say(discordtest.General, discordtest.Ann, discordtest.Mention(discordtest.Bot)+" what time is it?")
	j.reacted(asked, "👀")
	j.sessions.Model(j.session(discordtest.General), machinetest.Text("Noon."))
	j.texts(discordtest.General, "Noon.")
	if m := j.fake.Sent(discordtest.General)[0]; m.ReplyTo != asked {
		t.Errorf("it replies to %q", m.ReplyTo)
	}
	status := j.fake.Command(discordtest.Bob, discordtest.General, "status", "")
	ask := j.fake.Command(discordtest.Bob, discordtest.General, "ask", "And the date?")
	j.until("the commands are answered", func() bool {
		return j.fake.Answered(status).Answer == "Nothing is being worked on." && len(j.fake.Answered(ask).Public) == 1
	})
	j.sessions.Model(j.session(discordtest.General), machinetest.Text("The 23rd."))
	j.texts(discordtest.General, "Noon.", "The 23rd.")
	var said []string
	for _, b := range j.bodies(discordtest.General) {
		if m, is := b.(conversation.MessageAccepted); is {
			said = append(said, m.AuthorName+": "+m.Text)
		}
	}
	if !slices.Equal(said, []string{"Ann Lee: what time is it?", "Bob: And the date?"}) {
		t.Errorf("the session was told %q", said)
	}
}

// A stranger's command is refused in private, and leads to nothing.
func TestStranger(t *testing.T) {
	j := join(t)
	j.settings.Allow.Users = []string{discordtest.Ann}
	j.start()
	id := j.fake.Command(discordtest.Bob, discordtest.General, "ask", "A question")
	j.until("the refusal", func() bool { return j.fake.Answered(id).Answer == chat.Texts.MayNot })
	if got := j.fake.Answered(id); got.Public != nil || !got.Private {
		t.Errorf("the answer is %+v", got)
	}
	if row, _ := j.store.Load(t.Context(), chats.Key{Tenant: "default", Channel: "discord", Chat: "discord:" + discordtest.General}); row.Revision != 0 {
		t.Error("the chat has got a row")
	}
}

// The process dies after Discord has taken an answer, and before it knows: there is one answer
// in the chat all the same. What was said meanwhile is answered, too.
func TestRestart(t *testing.T) {
	j := join(t)
	j.start()
	first := j.fake.Say(discordtest.DM, discordtest.Ann, "one")
	j.reacted(first, "👀")
	late := make(chan struct{})
	j.fake.Fail(discordtest.Failing{Method: "POST", Path: "channels/" + discordtest.DM + "/messages", Late: late})
	j.sessions.Model(j.session(discordtest.DM), machinetest.Text("An answer."))
	j.until("Discord has it", func() bool { return len(j.fake.Texts(discordtest.DM)) == 1 })
	j.stop()
	close(late)
	j.fake.ForgetNonces() // some minutes later
	missed := j.fake.Say(discordtest.DM, discordtest.Ann, "two")
	j.start()
	j.reacted(missed, "👀")
	j.sessions.Model(j.session(discordtest.DM), machinetest.Text("Another one."))
	j.texts(discordtest.DM, "An answer.", "Another one.")
	n := 0
	for _, b := range j.bodies(discordtest.DM) {
		if _, is := b.(conversation.MessageAccepted); is {
			n++
		}
	}
	if n != 2 {
		t.Errorf("the session was told %d messages", n)
	}
}

// A command that was given as a text is not given again by the history at the next start.
func TestCommandsAreGivenOnce(t *testing.T) {
	j := join(t)
	j.start()
	first := j.fake.Say(discordtest.DM, discordtest.Ann, "one")
	j.reacted(first, "👀")
	j.sessions.Model(j.session(discordtest.DM), machinetest.Text("An answer."))
	j.texts(discordtest.DM, "An answer.")
	j.fake.Say(discordtest.DM, discordtest.Ann, "/clear")
	done := "Done. Nothing said so far is shown to the agent any more."
	j.texts(discordtest.DM, "An answer.", done)
	// The next message waits until the command is done with; then the mark is behind both.
	last := j.fake.Say(discordtest.DM, discordtest.Ann, "/status")
	j.texts(discordtest.DM, "An answer.", done, "Nothing is being worked on.")
	j.until("the command is written down", func() bool {
		row, _ := j.store.Load(t.Context(), chats.Key{Tenant: "default", Channel: "discord", Chat: "discord:" + discordtest.DM})
		if strings.Contains(string(row.Value), last) {
			return true
		}
		go j.fake.Beat() // the store says nothing to the fake: look again
		return false
	})
	j.stop()
	j.start()
	next := j.fake.Say(discordtest.DM, discordtest.Ann, "two")
	j.reacted(next, "👀")
	j.sessions.Model(j.session(discordtest.DM), machinetest.Text("Another one."))
	j.texts(discordtest.DM, "An answer.", done, "Nothing is being worked on.", "Another one.")
	n := 0
	for _, b := range j.bodies(discordtest.DM) {
		if _, is := b.(conversation.ContextCleared); is {
			n++
		}
	}
	if n != 1 {
		t.Errorf("cleared %d times", n)
	}
}

// A message that waits is edited and withdrawn from Discord, also by the process after.
func TestChangesOfWaiting(t *testing.T) {
	j := join(t)
	j.start()
	for _, text := range []string{"one", "two", "three"} {
		j.reacted(j.fake.Say(discordtest.DM, discordtest.Ann, text), "👀")
	}
	var ids []string
	for _, b := range j.bodies(discordtest.DM) {
		if m, is := b.(conversation.MessageAccepted); is {
			ids = append(ids, string(m.ClientMsgID))
		}
	}
	j.stop()
	j.start()
	j.reacted(j.fake.Say(discordtest.DM, discordtest.Ann, "four"), "👀")
	j.fake.Edit(strings.TrimPrefix(ids[1], "chat:"), "TWO")
	j.fake.Delete(strings.TrimPrefix(ids[2], "chat:"))
	j.reacted(j.fake.Say(discordtest.DM, discordtest.Ann, "five"), "👀")
	var got []string
	for _, b := range j.bodies(discordtest.DM) {
		switch b := b.(type) {
		case conversation.MessageEdited:
			got = append(got, "edited: "+b.Text)
		case conversation.MessageWithdrawn:
			got = append(got, "withdrawn")
		}
	}
	if !slices.Equal(got, []string{"edited: TWO", "withdrawn"}) {
		t.Errorf("the session has %q", got)
	}
}
