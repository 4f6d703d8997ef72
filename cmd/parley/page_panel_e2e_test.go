//go:build e2e

package main

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// Who answers, on which model, and what messages do meanwhile are chosen in a small panel: for the new
// conversation before it is there, for one that goes on at once, seen by whoever else has it
// open. Who may not, reads it.
func TestPagePanel(t *testing.T) {
	const (
		panel   = `document.querySelector('dialog.panel[open]')`
		checked = `[...document.querySelectorAll('dialog.panel input:checked')].map(e => e.value).join()`
		line    = `document.querySelector('.chooser')?.textContent`
		tool    = `document.querySelector('#head-tools [aria-label="Settings of this conversation"]')`
		sub     = `document.querySelector('#subtitle').textContent`
	)
	b := newBench(t, write(t, `
[models.fast]
provider = "scripted"
[[agents]]
name = "tutor"
description = "Explains things step by step."
prompt = "You explain."
model = "fast"
models = ["slow"]
[models.slow]
provider = "scripted"
`))
	b.open("")
	choose := func(b *bench, value string) {
		b.t.Helper()
		one := `document.querySelector('dialog.panel input[value="` + value + `"]')`
		b.wait(`!!` + one) // the panel is loaded when it is opened for the first time
		b.run(one + `.click()`)
	}
	done := func(b *bench) {
		b.t.Helper()
		b.key(kb.Escape)
		b.wait(`!` + panel)
	}

	b.wait(line + ` === 'Answered by coordinator'`)
	b.accessible("a chooser")
	b.run(`(e => { e.focus(); e.click(); })(document.querySelector('.chooser'))`)
	b.wait(`!!` + panel + ` && ` + checked + ` === ',coordinator'`)
	choose(b, "tutor")
	choose(b, "queue")
	b.accessible("panel of the new one")
	done(b)
	b.wait(line + `.startsWith('Answered by tutor') && document.activeElement.matches('.chooser')`)
	b.open("?again")
	b.wait(line + `.startsWith('Answered by tutor')`)
	b.say("What is 17 * 23?")
	b.wait(finals + ` === 1 && ` + idle + ` && ` + sub + `.startsWith('tutor')`)

	other := b.second()
	other.open(eval[string](b, `location.hash`))
	b.run(tool + `.click()`)
	b.wait(checked + ` === 'queue,tutor,tutor' && document.activeElement.value === 'queue'`)
	if text := eval[string](b, panel+`.innerText`); !strings.Contains(text, "Explains things step by step.") || !strings.Contains(text, "Who can see this: only you.") {
		t.Errorf("the panel says %q", text)
	}
	b.accessible("panel")
	b.size(360, 700)
	b.accessible("panel on a phone")
	b.media("prefers-color-scheme", "dark")
	b.accessible("panel on a phone in the dark")
	b.media("prefers-color-scheme", "light")
	b.size(1200, 800)

	other.wait(sub + `.startsWith('tutor')`)
	other.run(tool + `.click()`)
	choose(other, "interrupt")
	choose(other, "coordinator")
	b.wait(checked + ` === 'interrupt,coordinator' && ` + sub + ` === 'coordinator'`)
	b.key(kb.ArrowUp)
	other.wait(`!document.querySelector('dialog.panel [value=interrupt]').checked`)
	choose(b, "")
	other.wait(checked + ` === ',coordinator'`)
	done(other)

	b.run(`(window.real = fetch, window.fetch = () => Promise.resolve(Response.json({detail: 'The server is busy.'}, {status: 503})))`)
	choose(b, "tutor")
	b.wait(panel + `.querySelector('[role=alert]').innerText === 'It was not changed. The server is busy.' && ` + checked + ` === ',coordinator'`)
	b.run(`window.fetch = window.real`)
	choose(b, "tutor")
	b.wait(panel + `.querySelector('[role=alert]').hidden && ` + sub + `.startsWith('tutor')`)

	// Each of an agent's models is one more choice, for this conversation only; whoever else has it
	// open sees it, and the next answer comes from there.
	b.wait(checked + ` === ',tutor,tutor'`)
	choose(b, "tutor@slow")
	b.wait(sub + ` === 'tutor · slow' && ` + checked + ` === ',tutor,tutor@slow'`)
	other.wait(sub + ` === 'tutor · slow'`)
	b.accessible("panel with models")
	done(b)
	b.say("What is 2 * 3?")
	b.wait(`[...document.querySelectorAll('#log .text')].at(-1).textContent.includes('6') && ` + idle)
	b.run(tool + `.click()`)
	b.wait(checked + ` === ',tutor,tutor@slow'`)
	choose(b, "coordinator")
	b.wait(sub + ` === 'coordinator' && ` + checked + ` === ',coordinator'`)
	choose(b, "tutor")
	b.wait(sub + `.startsWith('tutor') && ` + checked + ` === ',tutor,tutor'`)

	// Another one's conversation, as a reader has it.
	b.run(thePage + `.then(p => { p.state.view = {...p.state.view, owner: 'ann', members: {[p.state.view.me]: 'reader'}}; p.paint(); })`)
	b.wait(panel + `.innerText.includes('Only its owner, ann, can change this.') && ` + panel + `.innerText.includes('(reader)')`)
	if !eval[bool](b, `[...`+panel+`.querySelectorAll('input')].every(e => e.disabled)`) {
		t.Error("a reader is offered changes")
	}
	b.accessible("panel of a reader")
	done(b)

	// The next conversation is the usual one.
	b.run(`document.querySelector('#new').click()`)
	b.wait(line + ` === 'Answered by coordinator'`)
	b.quiet()
	other.quiet()
}
