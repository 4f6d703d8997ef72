//go:build e2e

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// PAGE_AXE=FILE, the file axe.min.js of axe-core, has every new view judged by it, too.

// accessible fails for what cannot be read, used by name, or reached on this screen.
func (b *bench) accessible(view string) {
	b.t.Helper()
	b.none(view+": too faint", faint)
	b.none(view+": without a name, or an id twice", nameless)
	b.none(view+": cut off", cut)
	b.picture("shell-" + strings.ReplaceAll(view, " ", "-"))
	file := os.Getenv("PAGE_AXE")
	if file == "" {
		return
	}
	script, err := os.ReadFile(file)
	if err != nil {
		b.t.Fatal(err)
	}
	b.run(`(window.axe || (0, eval)(` + inJS(string(script)) + `), window.judged = null, axe.run().then(r => { window.judged = r.violations.flatMap(v => v.nodes.map(n => v.id + ': ' + n.html.slice(0, 160))); }))`)
	b.wait(`!!window.judged`)
	b.none(view+": axe says", `window.judged`)
}

func inJS(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}

// stroke is a key at the element that has the focus, and only its keydown: the browser's
// protocol sends the character also where the page has taken the key.
func (b *bench) stroke(key string) {
	b.t.Helper()
	b.run(`document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: ` + inJS(key) + `, bubbles: true, cancelable: true}))`)
}

// thePage is the module that runs, with what it shows to tests.
const thePage = `import(document.querySelector('script[type=module]').src)`

// listed tells the page a row of its list, as the server does.
func (b *bench) listed(row string) {
	b.t.Helper()
	b.run(`(window.told = false, ` + thePage + `.then(m => { m.handlers.notice({type: 'listed', data: ` + row + `}); window.told = true; }))`)
	b.wait(`window.told`)
}

func row(id, title, at, more string) string {
	return fmt.Sprintf(`{session: %q, title: %q, agent: 'coordinator', created_at: %q, activity_at: %q, last_at: %q, last_seq: 9, seen: 9, unread: 0, open_tasks: 0, awaiting_tasks: 0, awaiting: 0, pinned: false, archived: false%s}`, id, title, at, at, at, more)
}

const listTexts = `[...document.querySelectorAll('#sessions li')].map(e => e.matches('.day') ? '# ' + e.textContent : e.querySelector('.session-title').textContent)`

// marksFake answers what concerns pins and the archive as the server does, so that it
// can be shown for rows that only the page was told of.
const marksFake = `(() => {
	window.patched = [];
	const real = window.real = window.fetch;
	window.fetch = async (url, o = {}) => {
		const path = String(url);
		if (o.method === 'PATCH' || o.method === 'DELETE') { window.patched.push(o.method + ' ' + path + ' ' + (o.body || '')); return new Response('{}', {status: 200}); }
		if (path.includes('in=messages')) {
			window.asked = (window.asked || 0) + 1;
			const older = path.includes('cursor=');
			return Response.json(path.includes('q=nowhere') ? {items: [], next_cursor: null} : older ? {items: [], next_cursor: null} : {items: [{session: window.target || 's2', title: 'Second', message: window.targetMessage || 'm1', seq: window.targetSeq || 3, created_at: '2026-03-04T05:06:07Z', snippet: 'about the needle 👍 here', marks: [[10, 16]]}], next_cursor: 'c'});
		}
		if (path.includes('q=')) return Response.json(path.includes('q=nowhere') ? {items: [], next_cursor: null} : {items: [{session: 's1', title: 'Needle work', last_at: '2026-03-04T05:06:07Z', archived: true}], next_cursor: null});
		return real(url, o);
	};
	window.faked = true;
})()`

// The list, the search, the palette, the keys and what calls a person.
func TestPageShell(t *testing.T) {
	b := newBench(t, askingTools(t))
	b.open("")
	now := time.Now()
	at := func(days int) string { return now.AddDate(0, 0, -days).UTC().Format(time.RFC3339) }

	t.Run("the list is loaded once for each connection", func(t *testing.T) {
		b := b.in(t)
		b.fresh()
		b.say("first words")
		b.wait(finals + ` === 1 && ` + idle)
		b.wait(`[...document.querySelectorAll('#sessions .session-title')].some(e => e.textContent === 'first words')`)
		loads := `performance.getEntriesByType('resource').filter(e => e.name.includes('/api/sessions?limit=100') && !e.name.includes('archived=')).length`
		b.run(`` + thePage + `.then(m => { window.live = m.isLive(); })`)
		b.wait(`window.live !== undefined`)
		if n := eval[int](b, loads); n != 1 && eval[bool](b, `window.live`) {
			t.Errorf("the list was loaded %d times", n)
		}
	})

	t.Run("days, pins and the archive", func(t *testing.T) {
		b := b.in(t)
		b.run(marksFake)
		b.wait(`window.faked && document.querySelectorAll('#sessions .session').length === 1`)
		b.listed(row("s1", "First", at(1), ""))
		b.listed(row("s2", "Second", at(4), ""))
		b.listed(row("s3", "Third", at(800), ""))
		b.listed(row("s4", "Fourth", at(5), ", pinned: true"))
		b.listed(row("s5", "Fifth", at(6), ", archived: true"))
		year := now.AddDate(0, 0, -800).Year()
		b.wait(listTexts + `.length === 10`)
		got := eval[[]string](b, listTexts)
		if strings.Join(got[:8], "|") != "# Pinned|Fourth|# Today|first words|# Yesterday|First|# Previous 7 days|Second" {
			t.Errorf("the list is %q", got)
		}
		if !eval[bool](b, fmt.Sprintf(`[...document.querySelectorAll('#sessions .day')].at(-1).textContent.includes('%d')`, year)) && len(got) == 10 {
			t.Errorf("the list is %q", got)
		}
		b.wait(`[...document.querySelectorAll('#sessions time')].every(e => /\d\d:\d\d/.test(e.textContent))`)
		b.accessible("list")
		b.run(`document.querySelector('#archived').click()`)
		b.wait(listTexts + `.join() === '# Archived,Fifth'`)
		b.run(`document.querySelector('#archived').click()`)
		b.wait(listTexts + `[0] === '# Pinned'`)

		// By keyboard: the menu of the first row.
		b.run(`document.querySelector('[data-session=s4] + .row-more').focus()`)
		b.key(kb.Enter)
		b.wait(`document.activeElement.textContent === 'Rename'`)
		b.accessible("menu of a row")
		b.key(kb.ArrowDown)
		b.wait(`document.activeElement.textContent === 'Unpin'`)
		b.key("d")
		b.wait(`document.activeElement.textContent === 'Delete…'`)
		b.key(kb.Escape)
		b.wait(`!document.querySelector('.menu') && document.activeElement.matches('[data-session=s4] + .row-more')`)
		b.key(kb.Enter)
		b.key(kb.ArrowDown)
		b.key(kb.Enter)
		b.wait(`window.patched.at(-1) === 'PATCH /api/sessions/s4 {"pinned":false}'`)
		b.wait(listTexts + `[0] === '# Today'`)
		// Archive, and back by the notice.
		b.run(`document.querySelector('[data-session=s2] + .row-more').click()`)
		b.run(`[...document.querySelectorAll('.menu-item')].find(e => e.textContent === 'Archive').click()`)
		b.wait(`document.querySelector('#archived').textContent === 'Archived (2)'`)
		b.wait(`document.querySelector('.toast').textContent.includes('“Second” was archived')`)
		b.run(`document.querySelector('.toast .link-button').click()`)
		b.wait(`document.querySelector('#archived').textContent === 'Archived (1)' && !document.querySelector('.toast').textContent.includes('Undo') || ` + listTexts + `.includes('Second')`)
		// Rename in the row; the focus comes back to it.
		b.run(`document.querySelector('[data-session=s2] + .row-more').click()`)
		b.key(kb.Enter)
		b.wait(`document.activeElement.matches('.session .rename')`)
		b.key("Renamed")
		b.key(kb.Enter)
		b.wait(`window.patched.at(-1) === 'PATCH /api/sessions/s2 {"title":"Renamed"}' && ` + listTexts + `.includes('Renamed')`)
		b.wait(`document.activeElement.dataset.session === 's2'`)
		// Delete asks; "Keep" keeps.
		b.run(`document.querySelector('[data-session=s2] + .row-more').click()`)
		b.run(`[...document.querySelectorAll('.menu-item')].find(e => e.textContent === 'Delete…').click()`)
		b.wait(`document.querySelector('dialog[open]').textContent.includes('Nothing of it can be brought back') && document.activeElement.textContent === 'Keep'`)
		b.key(kb.Enter)
		b.wait(`!document.querySelector('dialog')`)
		b.run(`document.querySelector('[data-session=s2] + .row-more').click()`)
		b.run(`[...document.querySelectorAll('.menu-item')].find(e => e.textContent === 'Delete…').click()`)
		b.wait(`!!document.querySelector('dialog .danger')`)
		b.run(`document.querySelector('dialog .danger').click()`)
		b.wait(`window.patched.at(-1).startsWith('DELETE /api/sessions/s2') && !` + listTexts + `.includes('Renamed')`)
		b.listed(`{session: 's3', gone: true}`)
		b.wait(`!` + listTexts + `.includes('Third')`)
	})

	t.Run("the search asks the server, and says what it does not find", func(t *testing.T) {
		b := b.in(t)
		b.run(`document.activeElement.blur()`)
		b.stroke("/")
		b.wait(`document.activeElement.id === 'search'`)
		b.key("needle")
		b.wait(`document.querySelector('#search').value === 'needle'`)
		b.wait(`document.querySelector('#found-state').textContent === '1 title, 1 message; older messages were not searched yet'`)
		b.wait(`[...document.querySelectorAll('#found mark')].map(e => e.textContent).join() === 'Needle,needle'`)
		b.accessible("search")
		b.run(`document.querySelector('#found-more').click()`)
		b.wait(`document.querySelector('#found-state').textContent === '1 title, 1 message' && document.activeElement.id === 'search'`)
		b.key(kb.ArrowDown)
		b.wait(`document.activeElement.dataset.found === 't:s1'`)
		b.key(kb.ArrowDown)
		b.wait(`document.activeElement.dataset.found === 'm:s2:m1'`)
		b.key(kb.ArrowUp)
		b.key(kb.ArrowUp)
		b.wait(`document.activeElement.id === 'search'`)
		b.key(kb.Escape)
		b.wait(`!document.querySelector('#search').value && document.querySelector('#found').hidden && !document.querySelector('#list').hidden`)
		b.key("nowhere")
		b.wait(`document.querySelector('#found-state').textContent.startsWith('Nothing has these words')`)
		b.key(kb.Escape)
		b.wait(`document.querySelector('#found').hidden`)
	})

	t.Run("a message that was found is shown where it stands, however far back", func(t *testing.T) {
		b := b.in(t)
		b.fresh()
		b.say("/say the needle is here")
		b.wait(finals + ` === 1 && ` + idle)
		b.run(`(window.target = location.hash.slice(4), window.targetMessage = document.querySelector('.row.mine').dataset.message, window.targetSeq = 2)`)
		session := eval[string](b, `location.hash`)
		for i := range 36 {
			b.paste(fmt.Sprintf("/say number %d of many lines", i))
			b.wait(fmt.Sprintf(`document.querySelectorAll('#log .row.mine').length >= %d && `+idle, i+2))
		}
		// Opened anew the window begins behind the message.
		b.do(chromedp.Navigate("http://" + b.addr + "/#/tasks"))
		b.do(chromedp.Reload())
		b.wait(`document.querySelector('#connection').dataset.state === 'open'`)
		b.open(session)
		b.wait(finals + ` > 5`)
		if eval[bool](b, `document.querySelector('#log').textContent.includes('needle')`) {
			t.Log("all of it was there from the beginning")
		}
		b.run(`location.hash = '#/'`)
		b.run(marksFake)
		b.run(`(window.target = ` + inJS(strings.TrimPrefix(session, "#/s/")) + `, window.targetSeq = 2, window.real('/api/sessions/' + window.target + '/messages').then(r => r.json()).then(j => { window.targetMessage = JSON.stringify(j).match(/"(m[0-9]+-[^"]+)"/)?.[1] || ''; }))`)
		b.wait(`!!window.targetMessage`)
		b.run(`document.querySelector('#search').focus()`)
		b.key("needle")
		b.wait(`document.querySelectorAll('#found-list a').length === 2`)
		b.run(`[...document.querySelectorAll('#found-list a')].at(-1).click()`)
		b.wait(`(e => !!e && e.textContent.includes('needle') && e.getBoundingClientRect().top > 0 && e.getBoundingClientRect().bottom < innerHeight)(document.querySelector('#log .flash'))`)
		b.wait(`!location.hash.includes('/at/')`)
		if y := eval[float64](b, `(document.querySelector('#log').lastElementChild.scrollIntoView({block: 'center'}), document.documentElement.scrollTo(0, 90), scrollY)`); y != 0 {
			t.Errorf("the page itself has scrolled by %v px", y)
		}
		b.run(`(s => { s.value = ''; s.dispatchEvent(new Event('input')); })(document.querySelector('#search'))`)
	})

	t.Run("the palette and the sheet", func(t *testing.T) {
		b := b.in(t)
		b.fresh()
		b.put("half a thought")
		b.key("k", kb.ModifierCtrl)
		b.wait(`document.activeElement.matches('dialog.palette .palette-input') && document.querySelectorAll('.option').length > 5`)
		b.accessible("palette")
		b.key("theme")
		b.wait(`document.querySelector('[aria-selected=true]')?.textContent.startsWith('Change theme') && document.activeElement.getAttribute('aria-activedescendant') === document.querySelector('[aria-selected=true]').id`)
		b.stroke("Enter")
		b.wait(`!document.querySelector('.palette') && document.documentElement.dataset.theme === 'light' && document.activeElement.id === 'message' && document.activeElement.value === 'half a thought'`)
		b.key("k", kb.ModifierCtrl)
		b.wait(`!!document.querySelector('.palette')`)
		b.key("needle")
		b.wait(`[...document.querySelectorAll('.palette .day')].map(e => e.textContent).join() === 'Titles,In messages'`)
		b.key(kb.ArrowDown)
		b.wait(`!!document.querySelector('[aria-selected=true] .snippet')`)
		b.accessible("palette with results")
		b.key(kb.Escape)
		b.wait(`!document.querySelector('.palette')`)
		b.run(`document.activeElement.blur()`)
		b.stroke("?")
		b.wait(`document.querySelector('dialog.sheet')?.textContent.includes('Edit your last waiting message')`)
		b.accessible("sheet")
		b.key(kb.Escape)
		b.wait(`!document.querySelector('dialog')`)
		// A box of text keeps its keys.
		b.put("")
		b.key("/?")
		b.wait(`document.querySelector('#message').value === '/?' && !document.querySelector('dialog')`)
		b.put("")
		b.run(`document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'k', ctrlKey: true, isComposing: true, bubbles: true}))`)
		b.run(`location.hash = '#/tasks'`)
		b.wait(`!document.querySelector('#tasks').hidden && !document.querySelector('.palette')`)
		b.key("O", kb.ModifierCtrl, kb.ModifierShift)
		b.wait(`location.hash === '#/' && document.activeElement.id === 'message'`)
	})

	t.Run("arrow up edits what waits; the modes say what they do", func(t *testing.T) {
		b := b.in(t)
		b.fresh()
		b.say("/wait 30s\n/say over")
		b.wait(working + ` && !document.querySelector('.mode-button').hidden`)
		b.run(`document.querySelector('.mode-button').click()`)
		b.wait(`document.querySelectorAll('[role=menuitemradio]').length === 3 && document.activeElement.getAttribute('aria-checked') === 'true'`)
		b.accessible("modes")
		b.key(kb.ArrowDown)
		b.key(kb.Enter)
		b.wait(`document.querySelector('.mode-button').textContent === 'Wait for its turn' && document.activeElement.id === 'message'`)
		b.paste("for later")
		b.wait(trayItems + ` === 1 && document.querySelector('.mode-button').textContent === 'Join in'`)
		b.do(chromedp.Focus("#message"))
		b.key(kb.ArrowUp)
		b.wait(`document.activeElement.value === 'for later' && document.querySelector('#tray').contains(document.activeElement)`)
		b.key(kb.Escape)
		b.do(chromedp.Focus("#message"))
		b.run(`document.querySelector('#tray .link-button').click()`)
		b.run(`document.querySelector('dialog .danger').click()`)
		b.wait(idle)
	})

	t.Run("it calls who looks elsewhere", func(t *testing.T) {
		b := b.in(t)
		b.fresh()
		b.run(`(window.calls = [], window.Notification = class { static permission = 'default'; static async requestPermission() { window.asked2 = (window.asked2 || 0) + 1; return Notification.permission = 'granted'; } constructor(title, o) { window.calls.push(title + ': ' + o.body + ' ' + o.tag); window.lastCall = this; } close() { this.closed = true; } })`)
		b.listed(row("s1", "First", at(0), ", open_tasks: 1"))
		b.listed(row("s1", "First", at(0), ", open_tasks: 1, awaiting_tasks: 1, awaiting: 1"))
		b.wait(`document.title.startsWith('(1) ')`)
		b.wait(`document.querySelector('link[rel=icon]').href.startsWith('data:image/svg')`)
		if eval[int](b, `window.calls.length`) != 0 || eval[bool](b, `!!window.asked2`) {
			t.Error("it called, or asked for the permission, without being told to")
		}
		b.run(`document.querySelector('#notify').click()`)
		b.wait(`document.querySelector('#notify').getAttribute('aria-pressed') === 'true' && window.asked2 === 1`)
		b.listed(row("s1", "First", at(0), ", open_tasks: 1"))
		b.listed(row("s1", "First", at(0), ""))
		b.wait(`window.calls.join() === 'First: This conversation is finished. parley:s1'`)
		b.wait(`!document.title.startsWith('(') && !document.querySelector('link[rel=icon]').href.startsWith('data:')`)
		b.run(`window.lastCall.onclick()`)
		b.wait(`location.hash === '#/s/s1' && window.lastCall.closed`)
		b.listed(row("s1", "First", at(0), ", open_tasks: 1"))
		b.listed(row("s1", "First", at(0), ""))
		b.listed(row("s6", "Sixth", at(0), ", open_tasks: 1"))
		b.listed(row("s6", "Sixth", at(0), ", awaiting_tasks: 1, awaiting: 1"))
		b.wait(`window.calls.length === 2 && window.calls[1].startsWith('Sixth: This conversation waits')`) // none for the one that is on the screen
		b.run(`document.querySelector('#notify').click()`)
		b.wait(`document.querySelector('#notify').getAttribute('aria-pressed') === 'false'`)
	})

	t.Run("a dropped file does not take the page's place, a notice not the button's", func(t *testing.T) {
		b := b.in(t)
		b.fresh()
		b.run(`(d => { d.items.add(new File(['x'], 'x.txt')); window.kept = !document.body.dispatchEvent(new DragEvent('drop', {dataTransfer: d, bubbles: true, cancelable: true})); })(new DataTransfer())`)
		b.wait(`window.kept`)
		b.run(`` + thePage + `.then(m => m.toast('A notice of some length, so that it is as wide as it can be'))`)
		b.wait(`(r => { const s = document.querySelector('.send').getBoundingClientRect(); return r && (r.bottom < s.top || r.right < s.left); })([...document.querySelectorAll('.toast')].at(-1)?.getBoundingClientRect())`)
	})

	t.Run("on a phone, in the dark", func(t *testing.T) {
		b := b.in(t)
		b.run(`document.documentElement.dataset.theme = 'dark'`)
		b.size(360, 640)
		b.fresh()
		b.accessible("phone")
		b.run(`document.querySelector('#conversation .menu-button').click()`)
		b.wait(`document.querySelector('#sidebar').classList.contains('open')`)
		b.run(`document.querySelector('[data-session=s1] + .row-more').click()`)
		b.wait(`!!document.querySelector('.menu')`)
		b.none("the menu stands out of the screen", `[...document.querySelectorAll('.menu')].map(e => e.getBoundingClientRect()).filter(r => r.left < 0 || r.right > innerWidth || r.bottom > innerHeight || r.top < 0).map(r => JSON.stringify(r))`)
		b.accessible("phone menu of a row")
		b.key(kb.Escape)
		b.run(`(s => { s.value = 'needle'; s.dispatchEvent(new Event('input')); })(document.querySelector('#search'))`)
		b.wait(`document.querySelectorAll('#found-list a').length === 2`)
		b.accessible("phone search")
		b.run(`(s => { s.value = ''; s.dispatchEvent(new Event('input')); })(document.querySelector('#search'))`)
		b.run(`document.querySelector('#shade').click()`)
		b.key("k", kb.ModifierCtrl)
		b.wait(`document.querySelectorAll('.option').length > 5`)
		b.accessible("phone palette")
		b.key(kb.Escape)
		b.wait(`!document.querySelector('.palette')`)
		b.size(1200, 800)
	})
	b.quiet()
}
