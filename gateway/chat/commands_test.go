package chat_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"parley/conversation"
	"parley/gateway/chat"
)

// Who may do what, and what each command answers. Commands never come to the session; free text
// always does, whole.
func TestCommandsAndPermissions(t *testing.T) {
	writer, reader, stranger := chat.Person{ID: "7", Name: "Ann"}, chat.Person{ID: "8", Name: "Ron"}, chat.Person{ID: "9", Name: "Sid"}
	lists := chat.Lists{Chats: []string{"42", "43"}, Users: []string{"7"}, Readers: []string{"8"}, Workspaces: []string{"w1"}}
	for name, c := range map[string]struct {
		u      chat.Update
		reply  string // a part of what is answered; "" = nothing is
		text   string // what comes to the session; "" = nothing does
		policy bool   // answer = "all"
		log    string // a part of the log
	}{
		"free text":                        {u: chat.Update{From: writer, Text: "Hello"}, text: "Hello"},
		"free text of a reader":            {u: chat.Update{From: reader, Text: "Hello"}, reply: "/ask"},
		"a question":                       {u: chat.Update{From: writer, Text: "/ask What is this?"}, text: "What is this?"},
		"a question of a reader":           {u: chat.Update{From: reader, Text: "/ask What is this?"}, text: "What is this?"},
		"a question with the bot's name":   {u: chat.Update{From: reader, Text: "/ask@parleybot What?"}, text: "What?"},
		"a question over lines":            {u: chat.Update{From: writer, Text: "/ask\nWhat\nis this?"}, text: "What\nis this?"},
		"no question":                      {u: chat.Update{From: reader, Text: "/ask  "}, reply: "Usage: /ask QUESTION"},
		"status":                           {u: chat.Update{From: reader, Text: "/status"}, reply: "Nothing has been asked here yet."},
		"help":                             {u: chat.Update{From: reader, Text: "/help"}, reply: "/cancel [all]"},
		"start":                            {u: chat.Update{From: reader, Text: "/start"}, reply: "/ask QUESTION"},
		"an unknown command":               {u: chat.Update{From: writer, Text: "/frobnicate it"}, reply: "There is no command /frobnicate"},
		"a command in capitals":            {u: chat.Update{From: writer, Text: "/HELP"}, reply: "/ask QUESTION"},
		"a path is no command":             {u: chat.Update{From: writer, Text: "/etc/hosts is empty"}, text: "/etc/hosts is empty"},
		"a directive is a command":         {u: chat.Update{From: writer, Text: "/say hello"}, reply: "There is no command /say"},
		"in the middle nothing is one":     {u: chat.Update{From: writer, Text: "see /help there"}, text: "see /help there"},
		"cancel, by a reader":              {u: chat.Update{From: reader, Text: "/cancel"}, reply: "may not"},
		"clear, by a reader":               {u: chat.Update{From: reader, Text: "/clear"}, reply: "may not"},
		"mode, by a reader":                {u: chat.Update{From: reader, Text: "/mode queue"}, reply: "may not"},
		"answer, by a reader":              {u: chat.Update{From: reader, Text: "/answer yes"}, reply: "may not"},
		"a mode that is none":              {u: chat.Update{From: writer, Text: "/mode fast"}, reply: "Usage: /mode"},
		"a mode":                           {u: chat.Update{From: writer, Text: "/mode Queue"}, reply: "From now on: queue"},
		"which mode":                       {u: chat.Update{From: writer, Text: "/mode"}, reply: "no mode of its own"},
		"answer without a question":        {u: chat.Update{From: writer, Text: "/answer yes"}, reply: "not open"},
		"a stranger":                       {u: chat.Update{From: stranger, Text: "Hello"}, log: "channels.telegram.allow_users"},
		"a stranger's command":             {u: chat.Update{From: stranger, Text: "/help"}, log: "id=9"},
		"another chat":                     {u: chat.Update{From: writer, Chat: "44", Text: "Hello"}, log: "channels.telegram.allow_chats"},
		"another workspace":                {u: chat.Update{From: writer, Workspace: "w2", Text: "Hello"}, log: "channels.telegram.allow_workspaces"},
		"the workspace":                    {u: chat.Update{From: writer, Workspace: "w1", Text: "Hello"}, text: "Hello"},
		"a group, not addressed":           {u: chat.Update{From: writer, Group: true, Text: "Hello all"}},
		"a group, addressed":               {u: chat.Update{From: writer, Group: true, Addressed: true, Text: "Hello bot"}, text: "Hello bot"},
		"a group, all":                     {u: chat.Update{From: writer, Group: true, Text: "Hello all"}, policy: true, text: "Hello all"},
		"a group, a command":               {u: chat.Update{From: writer, Group: true, Text: "/help"}, reply: "/ask QUESTION"},
		"a group, another bot's command":   {u: chat.Update{From: writer, Group: true, Text: "/weather"}},
		"a platform's command":             {u: chat.Update{From: writer, Group: true, Command: true, Addressed: true, Text: "/ask What?"}, text: "What?"},
		"a platform's command without one": {u: chat.Update{From: writer, Group: true, Command: true, Addressed: true, Text: "hello"}, reply: "/ask QUESTION"},
		"blank":                            {u: chat.Update{From: writer, Text: "  \n"}},
		"a picture": {
			u:    chat.Update{From: writer, Text: "See", Files: []chat.File{{Name: "a]\n[b.png", Type: "image/png", Bytes: 1234567}}},
			text: "See\n[attached: a) (b.png (image/png, 1.2 MB); its content was not handed over]",
		},
		"a voice note": {u: chat.Update{From: writer, Files: []chat.File{{Type: "voice message"}}}, text: "[attached: (voice message); its content was not handed over]"},
	} {
		t.Run(name, func(t *testing.T) {
			inPlace(t, func(p *place) {
				p.settings.Allow, p.settings.All = lists, c.policy
				p.platform.traits.Limit = 2000
			}, func(p *place) {
				c.u.Name = "1"
				if c.u.Chat == "" {
					c.u.Chat = "42"
				}
				if err := p.take(c.u); err != nil {
					t.Fatal(err)
				}
				got := strings.Join(p.platform.texts(), "\n")
				if c.reply == "" && got != "" || !strings.Contains(got, c.reply) {
					t.Errorf("answered %q, want %q", got, c.reply)
				}
				var texts []string
				for summary := range p.sessions.Sessions(t.Context(), conversation.Page{Tenant: "acme", Limit: 10}) {
					key := summary.Key
					for record := range p.sessions.Records(t.Context(), key, conversation.Range{}) {
						for _, e := range record.Events {
							if a, is := e.Body.(conversation.MessageAccepted); is {
								texts = append(texts, a.Text)
							}
						}
					}
				}
				if strings.Join(texts, "|") != c.text {
					t.Errorf("the session was told %q, want %q", texts, c.text)
				}
				if c.log != "" && !strings.Contains(p.log.String(), c.log) {
					t.Errorf("the log says %q, want %q", p.log.String(), c.log)
				}
				if strings.Contains(p.log.String(), "Hello") {
					t.Errorf("the log has what was said: %s", p.log.String())
				}
			})
		})
	}
}

// Empty lists admit nobody.
func TestNobodyIsAllowed(t *testing.T) {
	inPlace(t, func(p *place) { p.settings.Allow = chat.Lists{} }, func(p *place) {
		for range 3 {
			if err := p.take(chat.Update{Name: "1", Text: "Hello"}); err != nil {
				t.Fatal(err)
			}
		}
		if len(p.platform.texts()) > 0 || strings.Count(p.log.String(), "allow_chats") != 1 {
			t.Errorf("answered %q; the log says %q", p.platform.texts(), p.log.String())
		}
	})
}

// What a person may send in a minute is bounded, from both sides.
func TestUserRate(t *testing.T) {
	inPlace(t, func(p *place) { p.settings.UserRate = 3; p.platform.traits.Limit = 200 }, func(p *place) {
		for _, name := range []string{"1", "2", "3"} {
			p.say(name, "text")
		}
		if got := p.platform.texts(); len(got) != 0 {
			t.Errorf("within the rate: %q", got)
		}
		p.say("4", "text")
		if got := p.platform.texts(); len(got) != 1 || !strings.Contains(got[0], "3 messages a minute") {
			t.Errorf("beyond the rate: %q", got)
		}
		if err := p.take(chat.Update{Name: "5", From: chat.Person{ID: "8", Name: "Ron"}, Text: "another one"}); err != nil || len(p.platform.texts()) != 1 {
			t.Errorf("another person: %v, %q", err, p.platform.texts())
		}
	})
}

// With mode reject a busy chat says so, and nothing of the message is stored.
func TestBusyChat(t *testing.T) {
	inPlace(t, nil, func(p *place) {
		p.say("1", "one")
		p.sessions.Script = busy
		p.say("2", "two")
		p.sessions.Script = nil
		if got := p.platform.last().Text; got != "Please wait, I'm still thinking…" {
			t.Errorf("answered %q", got)
		}
		feed := p.feed()
		if last := feed[len(feed)-1]; last.Topic != chat.TopicError || last.Details.Code != conversation.SessionBusy {
			t.Errorf("the feed ends with %+v", last)
		}
	})
}

// One chat that waits holds up no other, nor the platform.
func TestSlowChat(t *testing.T) {
	inPlace(t, nil, func(p *place) {
		p.say("1", "one")
		hold := make(chan struct{})
		p.platform.send = func(o chat.Outgoing) (bool, error) {
			if strings.HasPrefix(o.Text, "slow") {
				<-hold
			}
			return true, nil
		}
		p.commit(conversation.PartialResponse{Part: part("p1", "slow")})
		if err := p.take(chat.Update{Chat: "43", Name: "1", Text: "/help"}); err != nil {
			t.Fatal(err)
		}
		if got := p.platform.texts(); len(got) == 0 {
			t.Error("the other chat has no answer")
		}
		p.say("2", "more") // the same chat takes messages, too
		close(hold)
		synctest.Wait()
		if got := p.platform.texts(); got[len(got)-1] != "slow" {
			t.Errorf("shown %q", got)
		}
	})
}

// In a group the answer replies to its message, people are named, and whom a part names is
// mentioned (N-18).
func TestGroup(t *testing.T) {
	inPlace(t, nil, func(p *place) {
		u := chat.Update{Group: true, Addressed: true, Name: "1", Text: "Who is next?"}
		if err := p.take(u); err != nil {
			t.Fatal(err)
		}
		u.Name, u.From = "2", chat.Person{ID: "8", Name: "Ron"}
		if err := p.take(u); err != nil {
			t.Fatal(err)
		}
		var second conversation.MessageID
		for _, b := range p.bodies("42") {
			if a, is := b.(conversation.MessageAccepted); is {
				second = a.Message
			}
		}
		answer := part("p1", "@Ann is next")
		answer.InReplyTo = second
		p.commit(conversation.PartialResponse{Part: answer})
		if got := p.platform.last(); got.Text != "<7> is next" || got.ReplyTo != "2" {
			t.Errorf("posted %+v", got)
		}
	})
}
