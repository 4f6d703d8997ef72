//go:build e2e

package main

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// Code in a message has its colours and a button that copies it, character for character, as
// soon as it is there and when it is loaded again.
func TestPageCode(t *testing.T) {
	b := newBench(t, "")
	b.open("")
	b.fresh()
	const source = "func main() {\n\tfmt.Println(\"<b>&amp;</b>\", 42) // all of it\n}"
	b.paste("Look:\n\n```go\n" + source + "\n```")
	for _, when := range []string{"live", "loaded again"} {
		const block = `document.querySelector('.row.mine .code')`
		b.wait(`['hl-keyword', 'hl-string', 'hl-number', 'hl-comment'].every(c => ` + block + `?.querySelector('code .' + c))`)
		if plain := eval[bool](b, `(c => getComputedStyle(c.querySelector('.hl-keyword')).color === getComputedStyle(c).color)(`+block+`.querySelector('code'))`); plain {
			t.Errorf("%s: a keyword has the colour of the text", when)
		}
		b.run(`(window.copied = null, Object.defineProperty(navigator, 'clipboard', {configurable: true, value: {writeText: async (text) => { copied = text; }}}), ` + block + `.querySelector('.copy').click())`)
		b.wait(`copied !== null && ` + block + `.querySelector('.copy').textContent === 'Copied'`)
		if got := eval[string](b, `copied.trimEnd()`); got != source {
			t.Errorf("%s: copied %q", when, got)
		}
		b.do(chromedp.Reload())
	}
	b.quiet()
}

// answer has the agent answer with this text, of several lines if need be.
func (b *bench) answer(text string) {
	b.t.Helper()
	b.say("/ask Which text?\n/say $reply")
	b.wait(`!!` + openCard)
	b.run(`(e => { e.value = ` + inJS(text) + `; e.dispatchEvent(new Event('input')); e.focus(); })(` + openCard + `.querySelector('textarea'))`)
	b.key(kb.Enter)
}

// A word that is wider than its cell is broken there, and a table that is wider than the
// screen is scrolled; the number of a list stands within its bubble.
func TestPageTables(t *testing.T) {
	b := newBench(t, emptyConfig(t))
	b.open("")
	b.fresh()
	word := strings.Repeat("verylongword", 8)
	b.answer("| one | two | three | four | five |\n|---|--:|---|---|---|\n| " + word + " | 2 | " + word + " | a<br>b | " + word + " |\n\n1986. The year\n1987. The next")
	b.wait(finals + ` === 1 && ` + idle)
	const over = `(() => {
		const out = [], range = document.createRange();
		for (const e of document.querySelectorAll('#log .assistant :is(th, td)')) {
			range.selectNodeContents(e);
			const box = e.getBoundingClientRect();
			if ([...range.getClientRects()].some(r => r.right > box.right + 1 || r.left < box.left - 1)) out.push(e.textContent);
		}
		return out;
	})()`
	for _, width := range []int64{1200, 390} {
		b.size(width, 800)
		b.none("printed over its neighbour", over)
		b.none("cut off", cut)
	}
	if !eval[bool](b, `(e => e.scrollWidth > e.clientWidth)(document.querySelector('#log .assistant .table'))`) {
		t.Error("the table is squeezed, and not scrolled")
	}
	if gap := eval[float64](b, `(ol => parseFloat(getComputedStyle(ol).paddingInlineStart) / parseFloat(getComputedStyle(ol).fontSize))(document.querySelector('#log .assistant ol'))`); gap < 2.8 {
		t.Errorf("a number of four digits has %v em", gap)
	}
	b.picture("tables")
	b.quiet()
}

// What colours code may come late, while an answer with code is written: nothing of the code
// is lost by that, on the screen or by the button that copies it. D-13.
func TestPageCodeLate(t *testing.T) {
	needBrowser(t)
	server := spawn(t, t.TempDir(), "--set", "scripted.token_delay=5ms")
	release := make(chan struct{})
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: server.addr})
		r.Out.Host = r.In.Host
	}}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/colours.js") {
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	b := &bench{t: t, addr: strings.TrimPrefix(front.URL, "http://")}
	b.browse()
	b.open("")
	lines := make([]string, 60)
	for i := range lines {
		lines[i] = "npm i foo   # comment"
	}
	source := strings.Join(lines, "\n")
	const block = `document.querySelector('#log .row:is(.draft, .assistant) .code code')`
	b.answer("```bash\n" + source + "\n```\nThat is all")
	b.wait(block + `?.textContent.includes('comment')`)
	close(release)
	b.wait(`!!` + block + `?.querySelector('.hl-comment') && ` + finals + ` === 1 && ` + idle)
	if got := eval[string](b, block+`.textContent`); got != source {
		t.Errorf("live the code has %d characters and ends with %q, stored are %d", len(got), got[max(0, len(got)-40):], len(source))
	}
	b.run(`(window.copied = null, Object.defineProperty(navigator, 'clipboard', {configurable: true, value: {writeText: async (text) => { copied = text; }}}), document.querySelector('#log .assistant .copy').click())`)
	b.wait(`copied !== null`)
	if got := eval[string](b, `copied`); got != source {
		t.Errorf("copied %d of %d characters", len(got), len(source))
	}
	b.quiet()
}

// What a person has typed is shown as it was typed; only code between fences is code. What
// an agent says is Markdown.
func TestPageTyped(t *testing.T) {
	b := newBench(t, emptyConfig(t))
	b.open("")
	b.fresh()
	const text = "# comment\n\ndef __init__(self):\n    return 2*3*4  # see https://example.org/a_b\n\t- tab\n> said"
	b.paste(text + "\n\n```go\nfunc main() {}\n```")
	const shown = `document.querySelector('.row.mine .text')`
	for _, when := range []string{"live", "loaded again"} {
		b.wait(`!!` + shown + `?.querySelector('.hl-keyword')`)
		if got := eval[string](b, shown+`.firstChild.textContent`); got != text {
			t.Errorf("%s: %q is shown as %q", when, text, got)
		}
		if !eval[bool](b, `(e => getComputedStyle(e).whiteSpace === 'pre-wrap' && e.children.length === 1 && e.querySelector('a').href === 'https://example.org/a_b')(`+shown+`.firstChild)`) {
			t.Errorf("%s: %s", when, eval[string](b, shown+`.innerHTML`))
		}
		b.do(chromedp.Reload())
	}
	b.fresh()
	b.answer("# heading\n\n2 *emphasised* words")
	b.wait(finals + ` === 1 && !!document.querySelector('#log .assistant .text em') && !!document.querySelector('#log .assistant .text .heading')`)
	b.quiet()
}
