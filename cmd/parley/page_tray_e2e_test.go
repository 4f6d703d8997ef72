//go:build e2e

package main

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

const (
	trayEdit = `document.querySelector('#tray [aria-label="Edit this message"]').click()`
	trayBox  = `document.querySelector('#tray textarea')`
	inBox    = `document.querySelector('#message').value`
)

// hold begins work that lasts, and a message that waits for its end.
func (b *bench) hold(waits string) {
	b.t.Helper()
	b.fresh()
	b.say("/wait 60s\n/say over")
	b.wait(working)
	b.paste(waits)
	b.wait(trayItems + ` === 1`)
}

// change opens the editor of the waiting message and types this in it.
func (b *bench) change(to string) {
	b.t.Helper()
	b.run(trayEdit)
	b.wait(`document.activeElement === ` + trayBox)
	b.run(`document.activeElement.select()`)
	b.key(to)
}

// What somebody types into a waiting message is theirs, whatever becomes of the message, and
// what they did not type changes nothing. N-05.
func TestPageTrayKeepsTexts(t *testing.T) {
	b := newBench(t, emptyConfig(t))
	b.open("")

	t.Run("the message is read meanwhile", func(t *testing.T) {
		b := b.in(t)
		b.hold("/say original text")
		b.change("/say something better")
		b.run(`document.querySelector('.composer .stop').click()`)
		b.wait(trayItems + ` === 0 && ` + inBox + ` === '/say something better'`)
		b.wait(`[...document.querySelectorAll('.toast')].some(e => e.textContent.includes('does not wait any more'))`)
		b.put("")
		b.wait(idle)
	})

	t.Run("it is withdrawn in another tab, edited in another tab", func(t *testing.T) {
		b := b.in(t)
		b.hold("original text")
		other := b.second()
		other.open(eval[string](b, `location.hash`))
		other.wait(trayItems + ` === 1`)

		// Nothing was typed here: what another one has saved stays.
		b.run(trayEdit)
		other.change("edited in tab 2")
		other.key(kb.Enter)
		other.wait(`!` + trayBox)
		b.wait(trayBox + `.value === 'edited in tab 2'`)
		b.stroke("Enter")
		b.wait(`!` + trayBox + ` && document.querySelector('#tray .tray-text').textContent === 'edited in tab 2'`)
		other.change("edited in tab 2 again")
		b.run(trayEdit)
		other.key(kb.Enter)
		b.wait(trayBox + `.value === 'edited in tab 2 again'`)
		b.key(kb.Escape)
		b.wait(`document.querySelector('#tray .tray-text')?.textContent === 'edited in tab 2 again'`)

		// Something was typed: it says that there is a newer text.
		b.change("mine")
		other.change("theirs")
		other.key(kb.Enter)
		b.wait(`document.querySelector('#tray li .hint')?.textContent === 'Changed elsewhere meanwhile: “theirs”. Save replaces that.'`)
		if v := eval[string](b, trayBox+`.value`); v != "mine" {
			t.Errorf("the editor holds %q", v)
		}
		other.run(`document.querySelector('[aria-label="Withdraw this message"]').click()`)
		b.wait(trayItems + ` === 0 && ` + inBox + ` === 'mine' && document.activeElement.id === 'message'`)
		b.put("")
		b.run(`document.querySelector('.composer .stop').click()`)
		b.wait(idle)
		other.quiet()
	})

	t.Run("another conversation is opened", func(t *testing.T) {
		b := b.in(t)
		b.hold("original text")
		b.change("half a thought")
		here := eval[string](b, `location.hash`)
		b.run(`location.hash = '#/'`)
		b.wait(`!document.querySelector('#empty').hidden && ` + inBox + ` === ''`)
		b.run(`location.hash = '` + here + `'`)
		b.wait(inBox + ` === 'half a thought' && ` + trayItems + ` === 1`)
		b.put("")
		b.run(`document.querySelector('.composer .stop').click()`)
		b.wait(idle)
	})

	t.Run("the server is away", func(t *testing.T) {
		b := b.in(t)
		b.hold("original text")
		b.change("rewritten")
		b.stop()
		b.wait(`document.querySelector('#connection').dataset.state === 'waiting'`)
		b.key(kb.Enter)
		b.wait(`[...document.querySelectorAll('.toast')].some(e => e.textContent.includes('The message was not changed.'))`)
		if v := eval[string](b, trayBox+`?.value`); v != "rewritten" {
			t.Errorf("the editor holds %q", v)
		}
		b.serve()
		b.wait(`document.querySelector('#connection').dataset.state === 'open' && ` + trayItems + ` === 1`)
		b.key(kb.Enter)
		b.wait(`!` + trayBox + ` && document.querySelector('#tray .tray-text').textContent === 'rewritten'`)
		b.run(`document.querySelector('.composer .stop').click()`)
		b.wait(idle)
	})

	t.Run("on a phone all of the editor is seen", func(t *testing.T) {
		b := b.in(t)
		b.hold(strings.Repeat("a long text that waits ", 40))
		b.do(chromedp.EmulateViewport(390, 500, chromedp.EmulateMobile, chromedp.EmulateTouch))
		b.run(trayEdit)
		b.wait(`!!` + trayBox)
		b.frame()
		if hidden := eval[[]string](b, `(tray => [...document.querySelectorAll('#tray li :is(textarea, button)')].filter(e => { const r = e.getBoundingClientRect(); return r.bottom > tray.bottom || r.top < tray.top || r.right > tray.right; }).map(e => e.getAttribute('aria-label')))(document.querySelector('#tray').getBoundingClientRect())`); len(hidden) > 0 {
			t.Errorf("cut off: %q", hidden)
		}
		b.picture("tray-phone")
	})
	b.quiet()
}

// How a message joins the work is chosen for the conversation in which it was chosen.
func TestPageModeStays(t *testing.T) {
	const mode = `document.querySelector('.mode-button:not([hidden])')?.textContent`
	b := newBench(t, emptyConfig(t))
	b.open("")
	b.hold("waits in the first")
	one := eval[string](b, `location.hash`)
	b.hold("waits in the second")
	two := eval[string](b, `location.hash`)
	b.run(`document.querySelector('.mode-button').click()`)
	b.run(`[...document.querySelectorAll('[role=menuitemradio]')].find(e => e.textContent.startsWith('Interrupt')).click()`)
	b.wait(mode + ` === 'Interrupt'`)
	b.run(`location.hash = '` + one + `'`)
	b.wait(`document.querySelector('#tray').textContent.includes('in the first') && ` + mode + ` === 'Join in'`)
	b.run(`location.hash = '` + two + `'`)
	b.wait(mode + ` === 'Interrupt'`)
	b.paste("/say now")
	b.wait(mine("/wait 60s", "cancelled") + ` && ` + mine("/say now", "answered"))
	b.quiet()
}
