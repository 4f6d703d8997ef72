//go:build e2e

package main

import (
	"bytes"
	"slices"
	"testing"
)

// slowWire holds what the page says to the server, as a long way does, until go() lets go of
// so many frames that hold these words, and of those before them.
const slowWire = `(() => {
	const real = WebSocket.prototype.send;
	window.held = [];
	WebSocket.prototype.send = function (text) { held.push([this, text]); };
	window.let = (words) => { const at = held.findIndex(([, text]) => text.includes(words)); for (const [socket, text] of held.splice(0, at + 1)) real.call(socket, text); return at >= 0; };
	window.free = () => { WebSocket.prototype.send = real; for (const [socket, text] of held.splice(0)) if (socket.readyState === 1) real.call(socket, text); };
})()`

// spoken is what this user's bubbles say, in their order.
const spoken = `[...document.querySelectorAll('#log .row.mine .text')].map(e => e.textContent)`

// What is sent arrives in the order in which it was sent, wherever somebody goes meanwhile:
// also while its conversation is created, while a file is on its way, and across a lost connection.
func TestPageOutbox(t *testing.T) {
	b := newBench(t, emptyConfig(t))
	b.open("")
	answered := func(t *testing.T, want ...string) {
		t.Helper()
		b.wait(mine(want[len(want)-1], "answered") + ` && ` + idle)
		if got := eval[[]string](b, spoken); !slices.Equal(got, want) {
			t.Errorf("the messages stand as %q, want %q", got, want)
		}
	}

	t.Run("while a conversation is created", func(t *testing.T) {
		b := b.in(t)
		b.fresh()
		b.run(slowWire)
		b.say("/say one")
		b.say("/say two")
		b.wait(`let('"create"')`)
		b.wait(`location.hash.startsWith('#/s/') && held.some(([, text]) => text.includes('/say one'))`)
		b.say("/say three")
		b.run(`free()`)
		answered(t, "/say one", "/say two", "/say three")
	})

	t.Run("its first message is sent, though another one is opened meanwhile", func(t *testing.T) {
		b := b.in(t)
		b.fresh()
		b.run(slowWire)
		b.say("/say it came")
		b.wait(`held.some(([, text]) => text.includes('"create"'))`)
		b.run(`document.querySelector('#sessions a').click()`)
		b.wait(`location.hash.startsWith('#/s/')`)
		b.run(`free()`)
		b.wait(`[...document.querySelectorAll('#sessions .session-title')].some(e => e.textContent === '/say it came')`)
		b.run(`[...document.querySelectorAll('#sessions a')].find(e => e.textContent.includes('/say it came')).click()`)
		answered(t, "/say it came")
	})

	t.Run("without a connection", func(t *testing.T) {
		b := b.in(t)
		b.fresh()
		b.say("/say a")
		b.wait(finals + ` === 1 && ` + idle)
		a := eval[string](b, `location.hash`)
		b.stop()
		b.wait(`document.querySelector('#connection').dataset.state === 'waiting'`)
		b.say("/say first in a")
		b.say("/say second in a")
		b.run(`document.querySelector('#new').click()`)
		b.wait(`document.querySelectorAll('#log .row').length === 0`)
		b.say("/say begun")
		b.wait(mine("/say begun", "sending"))
		b.run(`[...document.querySelectorAll('#sessions a')].find(e => !e.textContent.includes('/say a')).click()`)
		b.wait(`[...document.querySelectorAll('#sessions a')].filter(e => e.textContent.includes('not sent')).length === 1`)
		b.accessible("not sent")
		// One that was begun is there until another new one is wanted.
		b.run(`location.hash = '#/'`)
		b.wait(mine("/say begun", "sending"))
		b.run(`document.querySelectorAll('#sessions a')[2].click()`)
		b.serve()
		b.wait(`[...document.querySelectorAll('#sessions .session-title')].some(e => e.textContent === '/say begun') && !document.querySelector('#sessions').textContent.includes('not sent')`)
		b.run(`location.hash = '` + a + `'`)
		answered(t, "/say a", "/say first in a", "/say second in a")
		b.run(`[...document.querySelectorAll('#sessions a')].find(e => e.textContent.includes('/say begun')).click()`)
		answered(t, "/say begun")
	})

	t.Run("a reload keeps what was not sent", func(t *testing.T) {
		b := b.in(t)
		b.fresh()
		b.run(slowWire)
		b.say("/say of the new one")
		b.run(`document.querySelector('#sessions a').click()`)
		b.wait(`location.hash.startsWith('#/s/')`)
		b.say("/say of this one")
		b.wait(mine("/say of this one", "sending"))
		b.open("?again" + eval[string](b, `location.hash`))
		b.wait(mine("/say of this one", "answered"))
		b.wait(`[...document.querySelectorAll('#sessions .session-title')].some(e => e.textContent === '/say of the new one')`)
	})

	t.Run("behind a file", func(t *testing.T) {
		b := b.in(t)
		b.fresh()
		b.say("/say a")
		b.wait(finals + ` === 1 && ` + idle)
		b.run(`(window.real = XMLHttpRequest.prototype.send, window.xhrs = [], XMLHttpRequest.prototype.send = function (body) { xhrs.push(() => real.call(this, body)); })`)
		b.choose(picked(t, "notes.txt", bytes.Repeat([]byte("all of it\n"), 100)))
		b.wait(chipCount + ` === 1`)
		b.say("/say with a file")
		b.say("/say after it")
		b.wait(mine("/say after it", "sending"))
		b.run(`(XMLHttpRequest.prototype.send = real, xhrs.forEach(f => f()))`)
		answered(t, "/say a", "/say with a file", "/say after it")
	})
	b.quiet()
}
