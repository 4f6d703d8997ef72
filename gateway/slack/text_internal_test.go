package slack

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"parley/gateway/chat"
)

var people = []chat.Person{
	{ID: "UANNA", Name: "Anna Berg", Handle: "anna"},
	{ID: "UBEN0", Name: "Ben", Handle: "ben"},
	{ID: "UBEN1", Name: "Ben Two", Handle: "bento"},
	{ID: "UTWIN1", Name: "Sam", Handle: "sam1"},
	{ID: "UTWIN2", Name: "Sam", Handle: "sam2"},
	{ID: "<!here>", Name: "evil", Handle: "evil"},
	{ID: "UHERE", Name: "<!here>", Handle: ""},
}

func TestEncode(t *testing.T) {
	for in, want := range map[string]string{
		"a < b && c > d":                 "a &lt; b &amp;&amp; c &gt; d",
		"<!here> <!channel> <@UANNA>":    "&lt;!here&gt; &lt;!channel&gt; &lt;@UANNA&gt;",
		"@here @channel @everyone":       "@here @channel @everyone",
		"Ask @anna.":                     "Ask <@UANNA>.",
		"Ask @Anna Berg, @BEN and @ben":  "Ask <@UANNA>, <@UBEN0> and <@UBEN0>",
		"Ask @Ben Two":                   "Ask <@UBEN1>",
		"@annabelle, a@anna, @anna_x":    "@annabelle, a@anna, @anna_x",
		"@Sam or @sam1":                  "@Sam or <@UTWIN1>",
		"@evil":                          "@evil",
		"@<!here> now":                   "<@UHERE> now",
		"(@anna)@ben":                    "(<@UANNA>)<@UBEN0>",
		"@anna@ben":                      "<@UANNA>@ben",
		"@":                              "@",
		"&amp;":                          "&amp;amp;",
		"*bold* _it_ `code` ~no~ :tada:": "*bold* _it_ `code` ~no~ :tada:",
	} {
		if got := encode(in, people); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

func TestDecode(t *testing.T) {
	names := map[string]string{"UANNA": "Anna <Berg>", "UBEN0": "Ben"}
	name := func(id string) string { return names[id] }
	for in, want := range map[string]string{
		"a &lt; b &amp;&amp; c &gt; d":                "a < b && c > d",
		"&amp;lt;":                                    "&lt;",
		"<@UBOT0> book a table":                       "book a table",
		"<@UBOT0|parley>: book":                       ": book",
		"please <@UBOT0> book":                        "please book",
		"book <@UBOT0>":                               "book",
		"<@UBOT0>   /help":                            "/help",
		"Hi <@UANNA> and <@UBEN0>":                    "Hi @Anna <Berg> and @Ben",
		"Hi <@UCARL> and <@UCARL|carl>":               "Hi @UCARL and @carl",
		"see <#C1|general> and <#C2>":                 "see #general and #C2",
		"<!here> <!channel|channel> <!everyone>":      "@here @channel @everyone",
		"<!subteam^S1|@ops> <!subteam^S2>":            "@ops @subteam",
		"<!date^1392734382^{date}|Feb 18>":            "Feb 18",
		"<https://a.example/?x=1&amp;y=2>":            "https://a.example/?x=1&y=2",
		"<http://a.example|a.example>":                "a.example",
		"<https://a.example|the page>":                "the page (https://a.example)",
		"<https://a.example|https://a.example>":       "https://a.example",
		"<mailto:a@b.example|a@b.example>":            "a@b.example",
		"<tel:123|123>":                               "123",
		"two\n<@UBOT0> lines":                         "two\nlines",
		"&lt;@UANNA&gt; is no mention, nor is < this": "<@UANNA> is no mention, nor is < this",
	} {
		if got := decode(in, "UBOT0", name); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

// Whatever an agent writes, only people who have spoken are pinged, and it is read as it was
// written.
func TestTextsKeepTheirMeaning(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOf(rapid.OneOf(
			rapid.String(),
			rapid.SampledFrom([]string{"<!here>", "<@UANNA>", "@anna", "@Ben", "&amp;", "<", ">", "|", "@", "&lt;", " ", "<http://a|b>"}),
		)).Draw(t, "parts")
		text := strings.Join(parts, "")
		got := encode(text, people)
		bare := got
		for _, p := range people {
			bare = strings.ReplaceAll(bare, "<@"+p.ID+">", "")
		}
		if strings.ContainsAny(bare, "<>") {
			t.Fatalf("%q became %q, which has markup", text, got)
		}
		if measure(got) < len([]rune(got)) {
			t.Fatalf("%q measures %d", got, measure(got))
		}
		if plain := decode(encode(text, nil), "UBOT0", func(string) string { return "" }); plain != strings.TrimSpace(text) {
			t.Fatalf("%q came back as %q", text, plain)
		}
	})
}

func TestRichText(t *testing.T) {
	got, err := json.Marshal(richText("Ask <@UANNA> &amp; <@UBEN0>: *now* &lt;!here&gt;"))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"type":"rich_text","elements":[{"type":"rich_text_section","elements":[` +
		`{"type":"text","text":"Ask "},{"type":"user","user_id":"UANNA"},{"type":"text","text":" \u0026 "},` +
		`{"type":"user","user_id":"UBEN0"},{"type":"text","text":": *now* \u003c!here\u003e"}]}]}`
	if string(got) != want {
		t.Errorf("the block is\n%s, want\n%s", got, want)
	}
}

// A channel takes a few messages at once, then one a second, and none while Slack says so.
func TestPace(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	p := &pace{now: func() time.Time { return now }, next: map[string]time.Time{}}
	for i, want := range []time.Duration{0, 0, 0, time.Second, 2 * time.Second} {
		if got := p.reserve("C1"); got != want {
			t.Errorf("message %d waits %v, want %v", i, got, want)
		}
	}
	if got := p.reserve("C2"); got != 0 {
		t.Errorf("another channel waits %v", got)
	}
	p.hold("C2", 30*time.Second)
	if got := p.reserve("C2"); got != 30*time.Second {
		t.Errorf("a channel that Slack wants quiet for 30 s waits %v", got)
	}
	now = now.Add(time.Hour)
	for i, want := range []time.Duration{0, 0, 0, time.Second} {
		if got := p.reserve("C1"); got != want {
			t.Errorf("after an hour, message %d waits %v, want %v", i, got, want)
		}
	}
	for i := range paceKept {
		p.next[string(rune(i))] = now.Add(-time.Second)
	}
	if p.reserve("C9"); len(p.next) > 10 {
		t.Errorf("%d quiet channels are kept", len(p.next))
	}
}

func TestRecent(t *testing.T) {
	r := newRecent[int](2)
	for i, key := range []string{"a", "b", "c", "d"} {
		r.put(key, i)
	}
	if _, ok := r.get("a"); !ok { // the two before the two newest are still there, and this one in use
		t.Error("a is gone")
	}
	r.put("e", 5)
	for key, want := range map[string]bool{"a": true, "b": false, "c": true, "d": true, "e": true} {
		_, young := r.young[key] // get would make it young
		_, old := r.old[key]
		if (young || old) != want {
			t.Errorf("%s is kept: %v, want %v", key, young || old, want)
		}
	}
}

func TestWhen(t *testing.T) {
	for ts, want := range map[string]string{
		"1515449522.000016": "2018-01-08T22:12:02.000016Z",
		"1515449522":        "2018-01-08T22:12:02Z",
		"1515449522.5":      "2018-01-08T22:12:02.5Z",
		"":                  "0001-01-01T00:00:00Z",
		"cmd:1":             "0001-01-01T00:00:00Z",
	} {
		if got := when(ts).Format(time.RFC3339Nano); got != want {
			t.Errorf("%q is %s, want %s", ts, got, want)
		}
	}
	if got := oldestOf(when("1515449522.000016")); got != "1515449522.000016" {
		t.Errorf("back it is %s", got)
	}
}
