//go:build e2e

package main

import (
	"strings"
	"testing"
)

// A question that is no longer on the screen is not forgotten: a bar above the message box has
// it with its choices, and shows its card. N-04.
func TestPageBar(t *testing.T) {
	const bar = `document.querySelector('.ask-bar')`
	b := newBench(t, emptyConfig(t))
	b.open("")

	b.fresh()
	b.say("/askopen Which provider shall it be? [OAuth/JWT]\n/say You chose $reply")
	b.wait(`!!` + openCard)
	if eval[bool](b, `!`+bar+`.hidden`) {
		t.Error("the bar is there although the card is on the screen")
	}
	b.paste("Say it " + strings.Repeat("again and again ", 400))
	b.wait(`!` + bar + `.hidden && !document.querySelector('.row.mine:is([data-state=sending], [data-state=sent])')`) // paler until they are there
	if text := eval[string](b, bar+`.textContent`); !strings.Contains(text, "1 question waits: Which provider shall it be?") || !strings.Contains(text, "OAuthJWT") {
		t.Errorf("the bar says %q", text)
	}
	b.none("without a name", nameless)
	b.none("cut off", cut)
	b.none("hard to read", faint)
	b.size(360, 700)
	b.none("cut off on a phone", cut)
	if width := eval[int](b, `document.querySelector('.head-title').clientWidth`); width < 140 {
		t.Errorf("the title has %d px on a phone", width)
	}
	b.picture("bar-360")
	b.size(1200, 800)

	// What grows below in that moment does not take it back.
	b.run(`(` + bar + `.querySelector('.ask-go').click(), document.querySelector('#log').lastElementChild.style.paddingBottom = '20px')`)
	b.wait(bar + `.hidden && ` + openCard + `.contains(document.activeElement)`)
	b.run(`document.querySelector('#scroller').scrollTo(0, 1e9)`)
	b.wait(`!` + bar + `.hidden`)
	b.run(`[...` + bar + `.querySelectorAll('.choice')].find(e => e.textContent === 'JWT').click()`)
	b.wait(bar + `.hidden && ` + outcome + ` === 'AnsweredJWT'`)
	b.quiet()
}

// Of many choices the bar has as many as there is room for, and says how many more there are.
func TestPageBarManyChoices(t *testing.T) {
	const bar = `document.querySelector('.ask-bar')`
	b := newBench(t, emptyConfig(t))
	b.open("")
	b.fresh()
	b.say("/askopen Which provider? [one/two/three/four/five/six]\n/say You chose $reply")
	b.wait(`!!` + openCard)
	b.paste("Say it " + strings.Repeat("again and again ", 400))
	b.wait(`!` + bar + `.hidden`)
	if text := eval[string](b, `[...`+bar+`.querySelectorAll('button')].map(e => e.textContent).join()`); text != "one,two,three,3 more" {
		t.Errorf("the bar has %q", text)
	}
	b.run(bar + `.querySelector('.ask-go').click()`)
	b.wait(bar + `.hidden && ` + openCard + `.contains(document.activeElement)`)
	b.quiet()
}

// A conversation can be saved: all of it, as text and as data.
func TestPageExport(t *testing.T) {
	b := newBench(t, emptyConfig(t))
	b.open("")
	b.fresh()
	b.say("What is 17 * 23?")
	b.wait(finals + ` === 1 && ` + idle)
	b.run(`(window.saved = [], URL.createObjectURL = (blob) => { window.blob = blob; return '#'; }, HTMLAnchorElement.prototype.click = function () { blob.text().then(text => saved.push([this.download, text])); })`)
	export := func(form string) (name, text string) {
		t.Helper()
		b.run(`(saved.length = 0, document.querySelector('[aria-label="Export this conversation"]').click())`)
		b.wait(`!!document.querySelector('dialog[open]')`)
		b.none("without a name", nameless)
		b.run(`[...document.querySelectorAll('dialog button')].find(e => e.textContent === '` + form + `').click()`)
		b.wait(`saved.length === 1 && !document.querySelector('dialog')`)
		return eval[string](b, `saved[0][0]`), eval[string](b, `saved[0][1]`)
	}
	name, text := export("Markdown")
	if name != "What is 17 23.md" || !strings.Contains(text, "What is 17 * 23?") || !strings.Contains(text, "391") || !strings.HasPrefix(text, "# What is 17 * 23?\n") {
		t.Errorf("%s:\n%s", name, text)
	}
	name, text = export("JSON")
	if name != "What is 17 23.json" || !strings.Contains(text, `"type": "tool_started"`) || !strings.Contains(text, `"seq": 1,`) {
		t.Errorf("%s:\n%s", name, text)
	}
	b.quiet()
}

// What a conversation may begin with is what is configured; the examples of the scripted model
// are no promise of another one.
func TestPageStarters(t *testing.T) {
	const texts = `[...document.querySelectorAll('.example-text')].map(e => e.textContent).join('|')`
	b := newBench(t, write(t, "page.starters = [\"Plan my week\", \"Explain this error\"]\n"))
	b.open("")
	b.wait(texts + ` === 'Plan my week|Explain this error'`)
	b.run(`document.querySelector('.example').click()`)
	b.wait(finals + ` === 1`)
	b.quiet()

	other := newBench(t, write(t, "model.default = \"mine\"\n[models.mine]\nprovider = \"openai\"\nmodel = \"some-model\"\nbase_url = \"http://127.0.0.1:9\"\n"))
	other.open("")
	other.wait(`!!document.querySelector('#empty h2') && !document.querySelector('.example')`)
	other.quiet()
}
