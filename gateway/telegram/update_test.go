package telegram

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/mymmrac/telego"

	"parley/gateway/chat"
)

var us = telego.User{ID: 99, IsBot: true, FirstName: "Parley", Username: "ParleyBot"}

const (
	alice   = `"from":{"id":7,"is_bot":false,"first_name":"Alice","last_name":"Smith","username":"alice"}`
	private = `"chat":{"id":7,"type":"private","first_name":"Alice"}`
	group   = `"chat":{"id":-100,"type":"supergroup","title":"Cooks"}`
	forum   = `"chat":{"id":-200,"type":"supergroup","title":"Forum","is_forum":true}`
	date    = `"date":1700000000`
)

// said is an update with a message.
func said(parts ...string) string {
	return `{"update_id":1,"message":{"message_id":5,` + date + `,` + strings.Join(parts, ",") + `}}`
}

func TestUpdates(t *testing.T) {
	at := time.Date(2023, 11, 14, 22, 13, 20, 0, time.UTC)
	person := chat.Person{ID: "7", Name: "Alice Smith", Handle: "alice"}
	inPrivate := chat.Update{
		Kind: chat.Said, Chat: "7", Allowed: "7", To: chat.Address(`{"chat":7}`), From: person, Name: "5", Addressed: true, At: at,
	}
	inGroup := chat.Update{
		Kind: chat.Said, Chat: "-100", Allowed: "-100", To: chat.Address(`{"chat":-100}`), Group: true, Title: "Cooks", From: person, Name: "5", At: at,
	}
	inTopic := chat.Update{
		Kind: chat.Said, Chat: "-200:17", Allowed: "-200", To: chat.Address(`{"chat":-200,"thread":17}`), Group: true, Title: "Forum",
		From: person, Name: "5", At: at,
	}
	with := func(u chat.Update, changes ...func(*chat.Update)) *chat.Update {
		for _, change := range changes {
			change(&u)
		}
		return &u
	}
	text := func(s string) func(*chat.Update) { return func(u *chat.Update) { u.Text = s } }
	toUs := func(u *chat.Update) { u.Addressed = true }
	reply := func(n chat.MessageName) func(*chat.Update) { return func(u *chat.Update) { u.ReplyTo = n } }
	file := func(f chat.File) func(*chat.Update) { return func(u *chat.Update) { u.Files = append(u.Files, f) } }
	from := func(p chat.Person) func(*chat.Update) { return func(u *chat.Update) { u.From = p } }

	for _, c := range []struct {
		name, update string
		want         *chat.Update // nil = nothing
	}{
		{"private text", said(private, alice, `"text":"Hello"`), with(inPrivate, text("Hello"))},
		{"group text", said(group, alice, `"text":"Hello"`), with(inGroup, text("Hello"))},
		{"topic", said(forum, alice, `"message_thread_id":17,"is_topic_message":true,"text":"Hello"`), with(inTopic, text("Hello"))},
		{"first message of a topic replies to its beginning",
			said(forum, alice, `"message_thread_id":17,"is_topic_message":true,"text":"Hello"`,
				`"reply_to_message":{"message_id":17,`+date+`,`+forum+`,"from":{"id":99,"is_bot":true,"first_name":"P"},"forum_topic_created":{"name":"n","icon_color":1}}`),
			with(inTopic, text("Hello"))},
		{"thread of replies is no topic", said(group, alice, `"message_thread_id":3,"text":"Hello"`), with(inGroup, text("Hello"))},
		{"mention at the beginning", said(group, alice, `"text":"@parleybot, hello @bob"`,
			`"entities":[{"type":"mention","offset":0,"length":10},{"type":"mention","offset":18,"length":4}]`), with(inGroup, text("hello @bob"), toUs)},
		{"mention behind an emoji", said(group, alice, `"text":"😀 ask @ParleyBot now"`,
			`"entities":[{"type":"mention","offset":7,"length":10}]`), with(inGroup, text("😀 ask @ParleyBot now"), toUs)},
		{"mention of a bot with a longer name", said(group, alice, `"text":"@ParleyBot2 hello"`,
			`"entities":[{"type":"mention","offset":0,"length":11}]`), with(inGroup, text("@ParleyBot2 hello"))},
		{"mention by text", said(group, alice, `"text":"Parley hello"`,
			`"entities":[{"type":"text_mention","offset":0,"length":6,"user":{"id":99,"is_bot":true,"first_name":"P"}}]`), with(inGroup, text("hello"), toUs)},
		{"mention by text of another", said(group, alice, `"text":"Bob hello"`,
			`"entities":[{"type":"text_mention","offset":0,"length":3,"user":{"id":8,"is_bot":false,"first_name":"Bob"}}]`), with(inGroup, text("Bob hello"))},
		{"nothing but a mention", said(group, alice, `"text":"@ParleyBot"`, `"entities":[{"type":"mention","offset":0,"length":10}]`), nil},
		{"mention and command", said(group, alice, `"text":"@ParleyBot /status"`,
			`"entities":[{"type":"mention","offset":0,"length":10},{"type":"bot_command","offset":11,"length":7}]`), with(inGroup, text("/status"), toUs)},
		{"entity beyond the end", said(group, alice, `"text":"Hi"`, `"entities":[{"type":"mention","offset":1,"length":10}]`), with(inGroup, text("Hi"))},
		{"command", said(private, alice, `"text":"/ask Why?"`, `"entities":[{"type":"bot_command","offset":0,"length":4}]`), with(inPrivate, text("/ask Why?"))},
		{"command in a group", said(group, alice, `"text":"/ask Why?"`, `"entities":[{"type":"bot_command","offset":0,"length":4}]`), with(inGroup, text("/ask Why?"))},
		{"command for us", said(group, alice, `"text":"/ask@parleyBOT Why?"`,
			`"entities":[{"type":"bot_command","offset":0,"length":14}]`), with(inGroup, text("/ask@parleyBOT Why?"), toUs)},
		{"command for another bot", said(group, alice, `"text":"/ask@otherbot Why?"`, `"entities":[{"type":"bot_command","offset":0,"length":13}]`), nil},
		{"reply to us", said(group, alice, `"text":"Yes"`, `"reply_to_message":{"message_id":4,`+date+`,`+group+`,"from":{"id":99,"is_bot":true,"first_name":"P"},"text":"?"}`),
			with(inGroup, text("Yes"), toUs, reply("4"))},
		{"reply to another", said(group, alice, `"text":"Yes"`, `"reply_to_message":{"message_id":4,`+date+`,`+group+`,"from":{"id":8,"is_bot":false,"first_name":"B"},"text":"?"}`),
			with(inGroup, text("Yes"), reply("4"))},
		{"bot", said(group, `"from":{"id":8,"is_bot":true,"first_name":"B"}`, `"text":"Hello"`), nil},
		{"anonymous administrator", said(group, `"from":{"id":1087968824,"is_bot":true,"first_name":"Group"}`, `"sender_chat":{"id":-100,"type":"supergroup","title":"Cooks"}`,
			`"author_signature":"boss","text":"Hello"`), with(inGroup, text("Hello"), from(chat.Person{ID: "-100", Name: "Cooks (boss)"}))},
		{"in a channel's name", said(group, `"from":{"id":136817688,"is_bot":true,"first_name":"Channel"}`, `"sender_chat":{"id":-300,"type":"channel","title":"News","username":"news"}`,
			`"text":"Hello"`), with(inGroup, text("Hello"), from(chat.Person{ID: "-300", Name: "News", Handle: "news"}))},
		{"forwarded by the channel itself", said(group, `"from":{"id":777000,"is_bot":false,"first_name":"Telegram"}`, `"sender_chat":{"id":-300,"type":"channel","title":"News"}`,
			`"is_automatic_forward":true,"text":"Hello"`), nil},
		{"channel post", `{"update_id":1,"channel_post":{"message_id":5,` + date + `,"chat":{"id":-300,"type":"channel","title":"News"},"text":"Hello"}}`, nil},
		{"somebody joined", said(group, alice, `"new_chat_members":[{"id":8,"is_bot":false,"first_name":"Bob"}]`), nil},
		{"edit", strings.Replace(said(private, alice, `"edit_date":1700000009,"text":"Hallo"`), `"message"`, `"edited_message"`, 1),
			with(inPrivate, text("Hallo"), func(u *chat.Update) { u.Kind = chat.Edited })},
		{"photo", said(private, alice, `"caption":"Look","photo":[{"file_id":"a","file_unique_id":"a","width":1,"height":1,"file_size":10},{"file_id":"b","file_unique_id":"b","width":9,"height":9,"file_size":900}]`),
			with(inPrivate, text("Look"), file(chat.File{Type: "image/jpeg", Bytes: 900}))},
		{"mention in a caption", said(group, alice, `"caption":"@ParleyBot Look","caption_entities":[{"type":"mention","offset":0,"length":10}],"photo":[{"file_id":"a","file_unique_id":"a","width":1,"height":1}]`),
			with(inGroup, text("Look"), toUs, file(chat.File{Type: "image/jpeg"}))},
		{"document", said(private, alice, `"document":{"file_id":"a","file_unique_id":"a","file_name":"a.pdf","mime_type":"application/pdf","file_size":12}`),
			with(inPrivate, file(chat.File{Name: "a.pdf", Type: "application/pdf", Bytes: 12}))},
		{"animation", said(private, alice, `"animation":{"file_id":"a","file_unique_id":"a","width":1,"height":1,"duration":1,"file_name":"a.mp4","mime_type":"video/mp4","file_size":5}`,
			`"document":{"file_id":"a","file_unique_id":"a","file_name":"a.mp4","mime_type":"video/mp4","file_size":5}`),
			with(inPrivate, file(chat.File{Name: "a.mp4", Type: "video/mp4", Bytes: 5}))},
		{"voice", said(private, alice, `"voice":{"file_id":"a","file_unique_id":"a","duration":3,"mime_type":"audio/ogg","file_size":12}`),
			with(inPrivate, file(chat.File{Type: "voice message of 3 s", Bytes: 12}))},
		{"audio", said(private, alice, `"audio":{"file_id":"a","file_unique_id":"a","duration":3,"title":"Song","file_size":12}`),
			with(inPrivate, file(chat.File{Name: "Song", Type: "audio", Bytes: 12}))},
		{"video", said(private, alice, `"video":{"file_id":"a","file_unique_id":"a","width":1,"height":1,"duration":3,"mime_type":"video/mp4","file_size":12}`),
			with(inPrivate, file(chat.File{Type: "video/mp4", Bytes: 12}))},
		{"video note", said(private, alice, `"video_note":{"file_id":"a","file_unique_id":"a","length":1,"duration":3,"file_size":12}`),
			with(inPrivate, file(chat.File{Type: "video message of 3 s", Bytes: 12}))},
		{"sticker", said(private, alice, `"sticker":{"file_id":"a","file_unique_id":"a","type":"regular","width":1,"height":1,"is_animated":false,"is_video":false,"emoji":"😀"}`),
			with(inPrivate, text("[sticker: 😀]"))},
		{"location", said(private, alice, `"location":{"latitude":52.52,"longitude":13.405}`), with(inPrivate, text("[location: 52.520000, 13.405000]"))},
		{"place", said(private, alice, `"location":{"latitude":52.52,"longitude":13.405},"venue":{"location":{"latitude":52.52,"longitude":13.405},"title":"Bar","address":"Street\n] 1"}`),
			with(inPrivate, text("[location: Bar, Street ) 1, 52.520000, 13.405000]"))},
		{"position that moves", strings.Replace(said(private, alice, `"location":{"latitude":52.52,"longitude":13.405,"live_period":60}`), `"message"`, `"edited_message"`, 1), nil},
		{"contact", said(private, alice, `"contact":{"phone_number":"+49","first_name":"Bob","last_name":"B"}`), with(inPrivate, text("[contact: Bob B, +49]"))},
		{"poll", said(private, alice, `"poll":{"id":"1","question":"Tea?","options":[{"text":"yes","voter_count":0},{"text":"no","voter_count":0}],"total_voter_count":0,"is_closed":false,"is_anonymous":true,"type":"regular","allows_multiple_answers":false}`),
			with(inPrivate, text("[poll: Tea?, yes, no]"))},
		{"dice", said(private, alice, `"dice":{"emoji":"🎲","value":4}`), with(inPrivate, text("[dice: 🎲, 4]"))},
		{"a kind of origin that is newer than the library", said(private, alice, `"text":"Hello","forward_origin":{"type":"from_the_future","date":1}`), with(inPrivate, text("Hello"))},
		{"the same in what is replied to", said(group, alice, `"text":"Yes"`, `"reply_to_message":{"message_id":4,`+date+`,`+group+`,"from":{"id":99,"is_bot":true,"first_name":"P"},"text":"?","forward_origin":{"type":"from_the_future","date":1}}`),
			with(inGroup, text("Yes"), toUs, reply("4"))},
		{"button", `{"update_id":1,"callback_query":{"id":"77",` + alice + `,"message":{"message_id":9,` + date + `,` + group + `,"text":"?"},"chat_instance":"1","data":"q1.0"}}`,
			with(inGroup, toUs, reply("9"), func(u *chat.Update) { u.Kind, u.Name, u.Token, u.At = chat.Pressed, "cb:77", "q1.0", time.Time{} })},
		{"button in a topic", `{"update_id":1,"callback_query":{"id":"77",` + alice + `,"message":{"message_id":9,` + date + `,` + forum + `,"message_thread_id":17,"is_topic_message":true,"text":"?"},"chat_instance":"1","data":"17#q1.0"}}`,
			with(inTopic, toUs, reply("9"), func(u *chat.Update) { u.Kind, u.Name, u.Token, u.At = chat.Pressed, "cb:77", "q1.0", time.Time{} })},
		{"button of an old message in a topic", `{"update_id":1,"callback_query":{"id":"77",` + alice + `,"message":{"message_id":9,"date":0,` + forum + `},"chat_instance":"1","data":"17#q1.0"}}`,
			with(inTopic, toUs, reply("9"), func(u *chat.Update) { u.Kind, u.Name, u.Token, u.At = chat.Pressed, "cb:77", "q1.0", time.Time{} })},
		{"button of no message", `{"update_id":1,"callback_query":{"id":"77",` + alice + `,"inline_message_id":"x","chat_instance":"1","data":"q1.0"}}`, nil},
		{"kicked", `{"update_id":1,"my_chat_member":{` + group + `,` + alice + `,` + date + `,"old_chat_member":{"status":"member","user":{"id":99,"is_bot":true,"first_name":"P"}},"new_chat_member":{"status":"kicked","user":{"id":99,"is_bot":true,"first_name":"P"},"until_date":0}}}`,
			with(inGroup, func(u *chat.Update) { u.Kind, u.Name = chat.Left, "" })},
		{"made an administrator", `{"update_id":1,"my_chat_member":{` + group + `,` + alice + `,` + date + `,"old_chat_member":{"status":"member","user":{"id":99,"is_bot":true,"first_name":"P"}},"new_chat_member":{"status":"administrator","user":{"id":99,"is_bot":true,"first_name":"P"}}}}`, nil},
		{"a kind that we did not ask for", `{"update_id":1,"inline_query":{"id":"1",` + alice + `,"query":"x","offset":""}}`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !json.Valid([]byte(c.update)) {
				t.Fatalf("the test's update is no JSON: %s", c.update)
			}
			b := bot(t, Options{})
			parsed, err := parse([]byte(c.update))
			if err != nil {
				t.Fatal(err)
			}
			got, is := b.update(parsed, us)
			switch {
			case is != (c.want != nil):
				t.Errorf("taken: %v, %+v", is, got)
			case is && !reflect.DeepEqual(got, *c.want):
				t.Errorf("\n got %+v\nwant %+v", got, *c.want)
			}
		})
	}
}
