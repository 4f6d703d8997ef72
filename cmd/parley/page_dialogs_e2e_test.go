//go:build e2e

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// A question is about the conversation in which it was asked: it says which one, and is gone
// when another one is opened or this one is erased.
func TestPageDialogs(t *testing.T) {
	needBrowser(t)
	server := spawn(t, t.TempDir())
	one, two := server.talk("/say the first"), server.talk("/say the second")
	b := &bench{t: t, addr: server.addr}
	b.browse()
	b.open("#/s/" + two)
	b.wait(lastText + ` === 'the second'`)
	sent := func() string {
		return eval[string](b, `window.sent.filter(m => ['clear', 'cancel'].includes(m.type)).map(m => m.type + ' ' + m.session).join()`)
	}
	b.run(`(window.sent = [], window.realSend = WebSocket.prototype.send, WebSocket.prototype.send = function (text) { sent.push(JSON.parse(text)); realSend.call(this, text); })`)
	to := func(session, text string) {
		t.Helper()
		b.run(`location.hash = '#/s/` + session + `'`)
		b.wait(lastText + ` === '` + text + `'`)
	}
	for _, button := range []string{"Clear: the agent forgets what is above", "Delete this conversation", "Export this conversation", "Settings of this conversation"} {
		to(one, "the first")
		b.run(`document.querySelector('[aria-label="` + button + `"]').click()`)
		b.wait(`!!document.querySelector('dialog[open]')`)
		if text := eval[string](b, `document.querySelector('dialog').textContent`); strings.HasPrefix(button, "Clear") && !strings.HasPrefix(text, "Clear “/say the first”?") {
			t.Errorf("the question is %q", text)
		}
		b.run(`history.back()`)
		b.wait(lastText + ` === 'the second' && !document.querySelector('dialog')`)
	}
	// Who answers at the same moment answers for the conversation that was asked about.
	to(one, "the first")
	b.run(`document.querySelector('[aria-label^="Clear"]').click()`)
	b.wait(`!!document.querySelector('dialog[open]')`)
	b.run(`(location.hash = '#/s/` + two + `', document.querySelector('dialog .danger').click())`)
	b.wait(`window.sent.some(m => m.type === 'clear')`)
	if got := sent(); got != "clear "+one {
		t.Errorf("sent: %s", got)
	}
	b.wait(lastText + ` === 'the second'`)

	b.run(`document.querySelector('[aria-label="Export this conversation"]').click()`)
	b.wait(`!!document.querySelector('dialog[open]')`)
	if status, body := server.do("DELETE", "/api/sessions/"+two, ""); status/100 != 2 {
		t.Fatalf("%d %s", status, body)
	}
	b.wait(`!document.querySelector('dialog') && document.querySelector('#empty').textContent.includes('was erased')`)
	b.quiet()
}

// "Stop and drop all" stops the work of the conversation in which it was pressed.
func TestPageDropsWhereAsked(t *testing.T) {
	b := newBench(t, emptyConfig(t))
	b.open("")
	b.hold("waits in the first")
	one := eval[string](b, `location.hash`)
	b.hold("waits in the second")
	two := eval[string](b, `location.hash`)
	b.run(`location.hash = '` + one + `'`)
	b.wait(trayItems + ` === 1 && document.querySelector('#tray').textContent.includes('in the first')`)
	b.run(`[...document.querySelectorAll('#tray button')].find(e => e.textContent === 'Stop and drop all').click()`)
	b.wait(`document.querySelector('dialog[open]')?.textContent.includes('“/wait 60s /say over”')`)
	b.run(`(history.back(), addEventListener('hashchange', () => { window.left = true; }, {once: true}))`)
	b.wait(`window.left && !document.querySelector('dialog') && document.querySelector('#tray').textContent.includes('in the second')`)
	b.run(`[...document.querySelectorAll('#tray button')].find(e => e.textContent === 'Stop and drop all').click()`)
	b.wait(`!!document.querySelector('dialog[open]')`)
	b.run(`(location.hash = '` + one + `', document.querySelector('dialog .danger').click())`)
	b.wait(`document.querySelector('#tray').textContent.includes('in the first') && ` + working)
	b.run(`location.hash = '` + two + `'`)
	b.wait(mine("in the second", "cancelled") + ` && ` + idle)
	b.run(`location.hash = '` + one + `'`)
	b.wait(trayItems + ` === 1 && ` + working)
	b.run(`document.querySelector('.composer .stop').click()`)
	b.wait(idle)
	b.quiet()
}

// A title may be as long as the server takes it, and whoever has typed one goes on where they were.
func TestPageRename(t *testing.T) {
	needBrowser(t)
	server := spawn(t, t.TempDir())
	session := server.talk("/say hello")
	b := &bench{t: t, addr: server.addr}
	b.browse()
	b.open("#/s/" + session)
	b.wait(lastText + ` === 'hello'`)
	const pen = `document.querySelector('[aria-label="Rename"]')`
	for _, key := range []string{"Enter", "Escape"} {
		b.run(`(` + pen + `.focus(), ` + pen + `.click())`)
		b.wait(`document.activeElement.matches('.rename')`)
		b.stroke(key)
		b.wait(`!document.querySelector('.rename') && document.activeElement === ` + pen)
	}
	b.do(chromedp.Focus("#message"))
	b.key("k", kb.ModifierCtrl)
	b.wait(`document.activeElement.matches('.palette-input')`)
	b.key("rename")
	b.wait(`document.querySelector('[aria-selected=true]')?.textContent.startsWith('Rename')`)
	b.stroke("Enter")
	b.wait(`document.activeElement.matches('.rename')`)
	b.run(`(e => { e.value = 'é'.repeat(300); e.dispatchEvent(new Event('input', {bubbles: true})); })(document.activeElement)`)
	b.wait(`document.activeElement.value === 'é'.repeat(256) && [...document.querySelectorAll('.toast')].some(e => e.textContent.includes('at most 512 bytes'))`)
	b.stroke("Enter")
	b.wait(`document.activeElement.id === 'message' && document.querySelector('#title').textContent === 'é'.repeat(256)`)
	b.wait(`[...document.querySelectorAll('#sessions .session-title')].some(e => e.textContent === 'é'.repeat(256))`)
	b.quiet()
}

// The palette does not lead to where one is, and has what stands above the conversation.
func TestPagePalette(t *testing.T) {
	needBrowser(t)
	server := spawn(t, t.TempDir())
	session := server.talk("/say hello")
	b := &bench{t: t, addr: server.addr}
	b.browse()
	b.open("#/s/" + session)
	b.wait(lastText + ` === 'hello' && document.querySelectorAll('#sessions .session').length === 1`)
	b.key("k", kb.ModifierCtrl)
	b.wait(`document.activeElement.matches('.palette-input')`)
	names := eval[[]string](b, `[...document.querySelectorAll('.palette .option')].map(e => e.innerText.split('\n')[0])`)
	all := strings.Join(names, "|")
	if !strings.Contains(all, "Export this conversation…") || !strings.Contains(all, "Clear: the agent forgets what is above…") || strings.Contains(all, "hello") {
		t.Errorf("the palette has %q", all)
	}
	b.key(kb.Escape)
	b.wait(`!document.querySelector('.palette')`)
	b.quiet()
}

// Whoever comes back to a conversation finds the place where they were reading.
func TestPageComesBack(t *testing.T) {
	needBrowser(t)
	server := spawn(t, t.TempDir())
	long, other := server.talk(turns(90)...), server.talk("/say the other one")
	b := &bench{t: t, addr: server.addr}
	b.browse()
	b.open("#/s/" + long)
	b.wait(lastText + ` === 'answer 90'`)
	for range 8 {
		b.wheel(-240)
	}
	const place = `(() => { const top = document.querySelector('#scroller').getBoundingClientRect().top; const e = [...document.querySelectorAll('#log .row.assistant')].find(e => e.getBoundingClientRect().top >= top); return e.querySelector('.text').textContent + ' at ' + Math.round(e.getBoundingClientRect().top - top); })()`
	was := eval[string](b, place)
	b.run(`location.hash = '#/s/` + other + `'`)
	b.wait(lastText + ` === 'the other one'`)
	b.run(`history.back()`)
	b.wait(lastText + ` !== 'the other one' && document.querySelectorAll('#log .row').length > 10`)
	b.frame()
	if now := eval[string](b, place); now != was {
		t.Errorf("the place was %s, and is %s", was, now)
	}
	if eval[bool](b, `document.querySelector('#jump').hidden`) {
		t.Error("there is no way to the end")
	}
	// Who was at the end finds the end.
	b.run(`document.querySelector('#jump').click()`)
	b.wait(`document.querySelector('#jump').hidden`)
	b.run(`location.hash = '#/s/` + other + `'`)
	b.wait(lastText + ` === 'the other one'`)
	b.run(`history.back()`)
	b.wait(lastText + ` === 'answer 90' && (s => s.scrollHeight - s.scrollTop - s.clientHeight < 2)(document.querySelector('#scroller'))`)
	b.quiet()
}

// The list of tasks is loaded again when something has happened, and not by the clock.
func TestPageTasksLive(t *testing.T) {
	needBrowser(t)
	server := spawn(t, t.TempDir())
	server.talk("/say the first")
	b := &bench{t: t, addr: server.addr}
	b.browse()
	b.open("")
	b.run(thePage + `.then(p => { window.live = p.isLive; })`)
	b.wait(`window.live?.()`)
	b.run(`(window.clock = [], window.realInterval = window.setInterval, window.setInterval = (f, ms) => ms >= 2000 ? clock.push(f) : realInterval(f, ms))`)
	b.run(`location.hash = '#/tasks'`)
	const tasks = `document.querySelectorAll('.task-list a').length`
	b.wait(tasks + ` === 1`)
	const loads = `performance.getEntriesByType('resource').filter(e => e.name.includes('/api/tasks')).length`
	was := eval[int](b, loads)
	b.run(`clock.forEach(f => f())`)
	b.frame()
	server.talk("/say the second")
	b.wait(fmt.Sprintf(`%s === 2 && %s > %d && document.querySelectorAll('.task-list [data-status=COMPLETE]').length === 2`, tasks, loads, was))
	if text := eval[string](b, `document.querySelector('.task-list a').textContent`); !strings.Contains(text, "the second") {
		t.Errorf("the first task is %q", text)
	}
	b.quiet()
}

// What went wrong is said in sentences, whoever wrote the second one.
func TestPageComplains(t *testing.T) {
	needBrowser(t)
	server := spawn(t, t.TempDir())
	session := server.talk("/say hello")
	b := &bench{t: t, addr: server.addr}
	b.browse()
	b.open("#/s/" + session)
	b.wait(lastText + ` === 'hello'`)
	b.run(`(window.realFetch = window.fetch, window.fetch = async (url, o = {}) => (o.method === 'PATCH' ? Response.json({detail: 'title must be shorter'}, {status: 400}) : realFetch(url, o)))`)
	b.run(`document.querySelector('[aria-label="Rename"]').click()`)
	b.wait(`document.activeElement.matches('.rename')`)
	b.key("other")
	b.stroke("Enter")
	b.wait(`document.querySelector('.toast.bad p')?.textContent === 'The title was not changed. Title must be shorter'`)
	b.quiet()
}
