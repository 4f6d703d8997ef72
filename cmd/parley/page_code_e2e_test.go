//go:build e2e

package main

import (
	"testing"

	"github.com/chromedp/chromedp"
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
