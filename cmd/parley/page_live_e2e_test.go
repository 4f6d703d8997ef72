//go:build e2e

package main

import "testing"

// What the server tells of the list is in it, in a hidden tab too, and the list is loaded once.
func TestPageLive(t *testing.T) {
	b := newBench(t, askingTools(t))
	b.open("")
	b.run(`` + thePage + `.then(m => { window.live = m.isLive(); })`)
	b.wait(`window.live !== undefined`)
	t.Log("live:", eval[bool](b, `window.live`))
	b.say("Set up auth")
	b.wait(`document.title.startsWith('(1) ')`)
	b.wait(`document.querySelector('#sessions .badge')?.textContent === 'awaiting you'`)
	loads := `performance.getEntriesByType('resource').filter(e => e.name.includes('/api/sessions?limit=100') && !e.name.includes('archived=')).length`
	t.Log("loads:", eval[int](b, loads))
	b.run(`location.hash = '#/'`)
	other := b.second()
	other.open("")
	other.wait(`document.querySelectorAll('#sessions .session').length === 1`)
	other.say("second conversation")
	other.wait(finals + ` === 1`)
	b.wait(`document.querySelectorAll('#sessions .session').length === 2`)
	other.run(`fetch('/api/sessions/' + location.hash.slice(4), {method: 'PATCH', headers: {'Content-Type': 'application/json'}, body: '{"title":"by another"}'})`)
	b.wait(`[...document.querySelectorAll('#sessions .session-title')].some(e => e.textContent === 'by another')`)
	// Pinned and archived in one tab is so in the other, and on the server.
	mine := `[...document.querySelectorAll('#sessions .session-title')].some(e => e.textContent === 'by another')`
	patch := func(body string) {
		t.Helper()
		other.run(`fetch('/api/sessions/' + location.hash.slice(4), {method: 'PATCH', headers: {'Content-Type': 'application/json'}, body: '` + body + `'})`)
	}
	patch(`{"pinned":true}`)
	b.wait(`[...document.querySelectorAll('#sessions *')].some(e => e.textContent === 'Pinned')`)
	patch(`{"archived":true}`)
	b.wait(`!` + mine + ` && !document.querySelector('#archived').hidden`)
	b.run(`document.querySelector('#archived').click()`)
	b.wait(mine)
	b.run(`document.querySelector('#archived').click()`)
	patch(`{"archived":false,"pinned":false}`)
	b.wait(mine + ` && document.querySelector('#archived').hidden`)
	other.run(`fetch('/api/sessions/' + location.hash.slice(4), {method: 'DELETE'})`)
	b.wait(`document.querySelectorAll('#sessions .session').length === 1`)
	t.Log("loads at the end:", eval[int](b, loads))
}
