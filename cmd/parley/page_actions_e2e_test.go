//go:build e2e

package main

import (
	"slices"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// What can be done with one message: copy it, ask it again, reply to it.
func TestPageActions(t *testing.T) {
	b := newBench(t, write(t, "retry.max_attempts = 1\n"))
	b.open("")
	b.fresh()
	b.run(`(window.clips = [], navigator.clipboard.writeText = async (text) => { clips.push(text); })`)
	b.say("What is 17 * 23?")
	b.wait(finals + ` === 1 && ` + idle)
	tool := func(row, label string) {
		t.Helper()
		b.run(`document.querySelector('` + row + ` [aria-label="` + label + `"]').click()`)
	}

	tool("#log .assistant", "Copy this message")
	tool("#log .row.mine", "Copy this message")
	b.wait(`clips.length === 2`)
	if got := eval[[]string](b, `clips`); got[1] != "What is 17 * 23?" || got[0] == "" {
		t.Errorf("copied %q", got)
	}

	tool("#log .assistant", "Ask this again")
	b.wait(finals + ` === 2 && ` + idle)
	if n := eval[int](b, `[...document.querySelectorAll('.row.mine')].filter(e => e.querySelector('.text').textContent === 'What is 17 * 23?').length`); n != 2 {
		t.Errorf("the message was asked %d times", n)
	}

	// Also an answer that was not the last word of its task, and one that was stopped; not
	// what was only said on the way.
	const offered = `[...document.querySelectorAll('#log .assistant')].filter(e => !e.querySelector('[aria-label="Ask this again"]').hidden).map(e => e.querySelector('.text').textContent)`
	b.fresh()
	b.say("/preamble I look at the clock\n/tool clock {}\n/partial It is late\n/say Good night")
	b.wait(finals + ` === 1 && ` + idle)
	if got := eval[[]string](b, offered); !slices.Equal(got, []string{"It is late", "Good night"}) {
		t.Errorf("can be asked again: %q", got)
	}
	b.fresh()
	b.say("/stream 2000 word")
	b.wait(`document.querySelector('#log .draft')?.textContent.includes('word word')`)
	b.key(kb.Escape)
	b.wait(idle + ` && document.querySelector('#log .stopped')?.textContent === 'Stopped here'`)
	if got := eval[[]string](b, offered); len(got) != 1 {
		t.Errorf("can be asked again after a stop: %d answers", len(got))
	}
	b.fresh()
	b.say("What is 17 * 23?")
	b.wait(finals + ` === 1 && ` + idle)

	const line = `document.querySelector('.replying')`
	tool("#log .assistant", "Reply to this message")
	b.wait(`!` + line + `.hidden && document.activeElement.id === 'message'`)
	b.none("without a name", nameless)
	b.none("cut off", cut)
	b.none("too faint", faint)
	b.say("Thank you")
	b.wait(line + `.hidden && ` + mine("Thank you", "answered"))
	if text := eval[string](b, `[...document.querySelectorAll('.row.mine')].at(-1).querySelector('.quote').textContent`); text == "" {
		t.Error("the reply does not say what it replies to")
	}
	b.wait(idle)

	// It is given up with its button, and does not go along to another conversation.
	tool("#log .row.mine", "Reply to this message")
	tool("", "Do not reply to this message")
	b.wait(line + `.hidden`)
	tool("#log .row.mine", "Reply to this message")
	b.fresh()
	b.wait(line + `.hidden`)

	// It goes with the message, and says so.
	b.say("/wait 60s\n/say over")
	b.wait(working)
	b.paste("to be withdrawn")
	b.wait(trayItems + ` === 1`)
	b.run(`[...document.querySelectorAll('#log .row.mine')].at(-1).querySelector('[aria-label="Reply to this message"]').click()`)
	b.wait(`!` + line + `.hidden`)
	b.run(`document.querySelector('#tray [aria-label="Withdraw this message"]').click()`)
	b.wait(line + `.hidden && [...document.querySelectorAll('.toast')].some(e => e.textContent === 'The message that you were replying to was withdrawn.')`)
	b.run(`document.querySelector('.composer .stop').click()`)
	b.wait(idle)
	b.fresh()

	// A failure says why, and offers what helps.
	const why = `document.querySelector('#log .assistant[data-kind=error] .why')`
	b.say("/fail 500\n/say not reached")
	b.wait(finals + ` === 1 && ` + idle + ` && ` + why + `?.textContent === 'The model failed (500). Try again in a moment. Try again'`)
	b.none("too faint", faint)
	// And nothing beside it that says another thing.
	if text := eval[string](b, `document.querySelector('#log .assistant[data-kind=error] .bubble').innerText`); text != "Error\n\nThe model failed (500). Try again in a moment. Try again" {
		t.Errorf("the failure reads %q", text)
	}
	tool("#log .assistant[data-kind=error]", "Copy this message")
	b.wait(`clips.at(-1) === 'The model failed (500). Try again in a moment.'`)
	b.run(why + `.querySelector('button').click()`)
	b.wait(finals + ` === 2 && ` + idle)
	b.quiet()
}
