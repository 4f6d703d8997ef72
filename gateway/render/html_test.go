package render

import (
	"errors"
	"iter"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

func TestHTML(t *testing.T) {
	const link = ` rel="nofollow noreferrer noopener" target="_blank"`
	for _, c := range []struct{ name, text, want string }{
		{"words", "a *b* **c** ~~d~~ `e`", "<p>a <em>b</em> <strong>c</strong> <del>d</del> <code>e</code></p>\n"},
		{"code", "```go\na < b\n```", "<pre><code class=\"language-go\">a &lt; b\n</code></pre>\n"},
		{"a list of tasks", "- [x] a\n- [ ] b", "<ul>\n<li><input checked=\"\" disabled=\"\" type=\"checkbox\"> a</li>\n<li><input disabled=\"\" type=\"checkbox\"> b</li>\n</ul>\n"},
		{"numbers", "3. a", "<ol start=\"3\">\n<li>a</li>\n</ol>\n"},
		{"a table", "|a|b|\n|:-|-:|\n|1|2|", "<table>\n<thead>\n<tr>\n<th>a</th>\n<th>b</th>\n</tr>\n</thead>\n<tbody>\n<tr>\n<td>1</td>\n<td>2</td>\n</tr>\n</tbody>\n</table>\n"},
		{"a link", "[a](https://x.test/?q=1&r=2)", `<p><a href="https://x.test/?q=1&amp;r=2"` + link + ">a</a></p>\n"},
		{"an address", "see https://x.test/a.", `<p>see <a href="https://x.test/a"` + link + ">https://x.test/a</a>.</p>\n"},
		{"mail", "<a@x.test>", "<p><a href=\"mailto:a@x.test\" rel=\"nofollow noreferrer\">a@x.test</a></p>\n"},
		{"an image", "![what *it* shows](https://x.test/?secret)", "<p>what <em>it</em> shows</p>\n"},
		{"tags", "a <b onclick=x>b</b>", "<p>a &lt;b onclick=x&gt;b&lt;/b&gt;</p>\n"},
		{"a block of HTML", "<script>\nalert(1)\n</script>", "<p>&lt;script&gt;\nalert(1)\n&lt;/script&gt;</p>\n"},
		{"a comment", "<!-- a -->", "<p>&lt;!-- a --&gt;</p>\n"},
		{"javascript", "[a](javascript:alert(1))", "<p>a</p>\n"},
		{"data", "[a](data:text/html,x)", "<p>a</p>\n"},
		{"an address without a host", "[a](//x.test/)", "<p>a</p>\n"},
		{"a place of this server", "[a](/api/sessions)", "<p>a</p>\n"},
		{"entities", "[a](&#106;avascript:alert(1))", "<p>a</p>\n"},
		{"a language that breaks out", "```\"><img/src=x>\na\n```", "<pre><code>a\n</code></pre>\n"},
		{"a title that breaks out", "[a](http://x.test/ 'b\" onclick=\"c')", `<p><a href="http://x.test/"` + link + ">a</a></p>\n"},
		{"nothing", "", ""},
	} {
		got, err := HTML(c.text)
		if err != nil || got != c.want {
			t.Errorf("%s: %v\n got %q\nwant %q", c.name, err, got, c.want)
		}
		if bad := unsafe(got); bad != "" {
			t.Errorf("%s: %s", c.name, bad)
		}
	}
}

// all is a node and those below it.
func all(root *html.Node) iter.Seq[*html.Node] {
	return func(yield func(*html.Node) bool) {
		if !yield(root) {
			return
		}
		for n := range root.Descendants() {
			if !yield(n) {
				return
			}
		}
	}
}

// unsafe says what of a page may do something, as a browser reads it: any element or
// attribute that is not known to be harmless, and any address but of the web and mail.
func unsafe(page string) string {
	nodes, err := html.ParseFragment(strings.NewReader(page), &html.Node{Type: html.ElementNode, Data: "div", DataAtom: atom.Div})
	if err != nil {
		return err.Error()
	}
	elements := strings.Fields("p br hr h1 h2 h3 h4 h5 h6 blockquote ul ol li em strong del pre code table thead tbody tr th td a input")
	attributes := strings.Fields("class start align type checked disabled href title rel target")
	for _, root := range nodes {
		for n := range all(root) {
			if n.Type == html.CommentNode || n.Type == html.DoctypeNode || n.Type == html.ElementNode && !slices.Contains(elements, n.Data) {
				return "it has " + n.Data
			}
			for _, a := range n.Attr {
				u, err := url.Parse(a.Val)
				switch {
				case !slices.Contains(attributes, a.Key):
					return n.Data + " has " + a.Key
				case a.Key == "href" && (err != nil || !slices.Contains([]string{"http", "https", "mailto"}, u.Scheme)):
					return "a link to " + a.Val
				case n.Data == "input" && a.Key == "type" && a.Val != "checkbox":
					return "a field of kind " + a.Val
				}
			}
		}
	}
	return ""
}

// Whatever a model writes, no page that shows it runs anything of it.
func FuzzHTML(f *testing.F) {
	for _, seed := range []string{
		"<script>alert(1)</script>", "[a](javascript:alert`1`)", "![a](x\"onerror=alert(1))", "<a href=\"java\tscript:x\">", "a\n===\n|b|\n|-|\n",
		"[a]: javascript:x\n[a]", "<https://x.test/\"onclick=\">", "```\"onclick=x\n```", "&lt;script&gt;", "<svg><p><style><a id=\"</style><img src=1 onerror=alert(1)>\">",
		"- [x] <input type=image>", "www.x.test/<b>", "<javascript:alert(1)>", "[x](https://a\u0000b 'c')", "\\<b>", "<!--><img src=x onerror=y>-->",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4096 {
			return
		}
		page, err := HTML(text)
		if err != nil && !errors.Is(err, errLong) {
			t.Fatal(err)
		}
		if bad := unsafe(page); bad != "" {
			t.Errorf("%q becomes %q: %s", text, page, bad)
		}
	})
}

// longTexts are made to take long, at the greatest length that is rendered.
func longTexts() map[string]string {
	most := DefaultBounds().TextBytes
	texts := map[string]string{
		"a table with more columns than are filled": "|a|\n|" + strings.Repeat("-|", most/4) + "\n" + strings.Repeat("a\n", most/4),
		"the same in a quotation":                   "> |a|\n> |" + strings.Repeat("-|", most/4) + "\n" + strings.Repeat("> a\n", most/8),
		"an address for many links":                 "[a]: http://x.test/" + strings.Repeat("x", most/2) + "\n\n" + strings.Repeat("[a]", most/6),
	}
	for _, piece := range []string{"[", "![", "*a_", "_a*", "**a*", "`", "`a``", ">", "> ", "> - ", "- ", "1. ", "<", "<a ", "[a](", "[a]: b\n", "|a", "|a|\n|-|\n", "|`\\|`|\n", "~~a", "&", "\\", "http://a.", "www.a", "a@b.", "(", "][", "*a **b ", "\t", "#", "<!--"} {
		texts[piece] = strings.Repeat(piece, most/len(piece))
	}
	return texts
}

// Texts that are made to take long take little memory and become pages of a bounded size;
// how long they take is BenchmarkLongTexts'.
func TestLongTexts(t *testing.T) {
	for name, text := range longTexts() {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		page, err := HTML(text)
		runtime.ReadMemStats(&after)
		allocated := int(after.TotalAlloc - before.TotalAlloc)
		if allocated > 64<<20 || len(page) > 4*mostHTML(text) || err != nil && !errors.Is(err, errLong) {
			t.Errorf("%q allocates %d MB and becomes %d bytes (%v)", name, allocated>>20, len(page), err)
		}
	}
}

// BenchmarkLongTexts measures those texts: at most 0.2 s each is what DefaultBounds allows for.
func BenchmarkLongTexts(b *testing.B) {
	for name, text := range longTexts() {
		b.Run(strconv.Quote(name), func(b *testing.B) {
			for b.Loop() {
				_, _ = HTML(text)
			}
		})
	}
}

// A table may have rows that are shorter than its first, as long as it is not mostly of
// cells that nobody wrote.
func TestShortRows(t *testing.T) {
	for _, c := range []struct {
		name, text string
		cells      int
	}{
		{"a short row", "|a|b|c|\n|-|-|-|\n|1|\n|1|2|3|4|", 9},
		{"many bars in a row of few columns", "|a|b|\n|-|-|\n" + strings.Repeat("|1|2|\n", 50) + strings.Repeat("|", 500), 104},
		{"few of many are written", "|a|\n|" + strings.Repeat("-|", 100) + strings.Repeat("\n|1|", 100), 0},
	} {
		page, err := HTML(c.text)
		if n := strings.Count(page, "<td") + strings.Count(page, "<th>"); n != c.cells || err != nil {
			t.Errorf("%s: %d cells, want %d (%v)", c.name, n, c.cells, err)
		}
	}
}
