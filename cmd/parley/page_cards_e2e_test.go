//go:build e2e

package main

import (
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// activity is the summary of what was done, as it is folded under each bubble.
const activity = `[...document.querySelectorAll('#log .activity')].map(e => e.querySelector('summary').textContent + ': ' + [...e.querySelectorAll('.name')].map(n => n.textContent).join(', '))`

// What a conversation shows beside answers: questions, activity, what became of
// each message; the same in every tab.
func TestPageCards(t *testing.T) {
	b := newBench(t, emptyConfig(t))
	b.open("")

	t.Run("D-15 N-06 a question that does not block: still working, until it is stopped", func(t *testing.T) {
		b := b.in(t)
		b.fresh()
		b.say("/askopen Which one? [A/B]\n/wait 60s\n/say not reached")
		const badge = `.querySelector('.working-badge')`
		b.wait(`!!` + openCard + ` && !` + openCard + badge + `.hidden && ` + working)
		if text := eval[string](b, openCard+badge+`.textContent`); text != "still working" {
			t.Errorf("the badge says %q", text)
		}
		b.picture("still-working")
		// The stop button is reached by keyboard and does not take the focus away with it.
		b.do(chromedp.Focus(".composer .stop"))
		b.key(kb.Enter)
		b.wait(idle + ` && ` + mine("not reached", "cancelled"))
		b.wait(`document.activeElement.id === 'message'`)
		b.wait(outcome + ` === 'Cancelled'`)
	})

	t.Run("N-04 a question that runs out says until when, and what counts then", func(t *testing.T) {
		b := b.in(t)
		b.fresh()
		b.say(`/tool askUser {"question":"How long?","blocking":true,"choices":["short","long"],"expiresIn":"2h","default":"short"}` + "\n/say ok")
		b.wait(`!!` + openCard)
		if !eval[bool](b, openCard+`.textContent.includes('Open until') && !!`+openCard+`.querySelector('.hint time') && `+openCard+`.textContent.includes('then “short” counts')`) {
			t.Errorf("the card says %q", eval[string](b, openCard+`.textContent`))
		}
		b.run(openCard + `.querySelector('.choice').focus()`)
		b.key(kb.Enter)
		b.wait(outcome + ` === 'Answeredshort' && ` + idle)
		if !eval[bool](b, `document.activeElement.classList.contains('outcome')`) {
			t.Error("the focus is lost after the answer")
		}
		b.fresh()
		b.say(`/tool askUser {"question":"Quick?","blocking":true,"expiresIn":"1s","default":"yes"}` + "\n/say ok")
		b.wait(outcome + ` === 'No answer came; the default countsyes'`)
		b.fresh()
		b.say(`/tool askUser {"question":"Quick?","blocking":true,"expiresIn":"1s"}` + "\n/say ok")
		b.wait(outcome + ` === 'Expired without an answer'`)
		b.wait(idle)
	})

	t.Run("D-11 activity is folded under the bubble that it precedes, also after a reload", func(t *testing.T) {
		b := b.in(t)
		b.fresh()
		b.say("/tool calculate {\"expression\":\"17*23\"}\n/partial so far $result\n/parallel developer /say one || researcher /say two\n/say both are done")
		b.wait(finals + ` === 1 && ` + idle)
		first := eval[[]string](b, activity)
		if len(first) != 2 || first[0] != "Used calculate: calculate" || first[1] != "Delegated to developer and researcher: → developer, → researcher" {
			t.Errorf("the activity is %q", first)
		}
		if eval[bool](b, `[...document.querySelectorAll('#log .activity')].some(e => e.open) || document.querySelector('#activity').childElementCount > 0`) {
			t.Error("the activity is not folded, or is left below")
		}
		b.run(`document.querySelector('#log .activity summary').focus()`)
		b.key(kb.Enter)
		b.wait(`document.querySelector('#log .activity').open && document.querySelector('#log .activity').textContent.includes('391')`)
		b.run(`[...document.querySelectorAll('#log .activity .link-button')].find(e => e.textContent === 'Details').click()`)
		b.wait(`!!document.querySelector('dialog[open]') && document.querySelector('dialog').textContent.includes('17*23')`)
		b.key(kb.Escape)
		b.wait(`!document.querySelector('dialog')`)
		b.picture("activity")
		b.do(chromedp.Reload())
		b.wait(finals + ` === 1`)
		second := eval[[]string](b, activity)
		if len(second) != len(first) || second[0] != first[0] || second[1] != first[1] {
			t.Errorf("after a reload the activity is %q, before it was %q", second, first)
		}
	})

	t.Run("N-01 what became of each message", func(t *testing.T) {
		b := b.in(t)
		b.fresh()
		b.during("Fix the login bug", "Actually use OAuth instead")
		b.wait(mine("Fix the login bug", "answered") + ` && ` + mine("Actually use OAuth", "merged") + ` && ` + idle)
		b.say("/ignore")
		b.wait(mine("/ignore", "unanswered") + ` && ` + idle)
		b.say("/fail 500 99\n/say never")
		b.wait(mine("never", "failed") + ` && ` + idle)
		states := eval[[]string](b, `[...document.querySelectorAll('.row.mine .state')].map(e => e.textContent)`)
		want := []string{"Answered", "Part of another answer", "No answer", "Failed"}
		for i, w := range want {
			if i >= len(states) || states[i] != w {
				t.Errorf("the messages became %q, want %q", states, want)
				break
			}
		}
		if !eval[bool](b, `[...document.querySelectorAll('#log .assistant')].at(-1).dataset.kind === 'error'`) {
			t.Error("the failure is not shown as an error")
		}
		// The model was reminded of what it ignored: no news for people.
		if got := eval[[]string](b, activity); len(got) != 2 { // a delegation, and attempts that failed
			t.Errorf("the activity is %q", got)
		}
		b.picture("became")
	})

	// With coverage off the model is not reminded, and nothing proves that what it says beside a call is an answer.
	t.Run("N-15 an answer that is not proven to be one is not called none", func(t *testing.T) {
		b := b.in(t)
		b.fresh()
		b.say("/say first")
		b.wait(mine("first", "answered") + ` && ` + idle)
		b.run(`fetch('/api/sessions/' + location.hash.split('/')[2], {method: 'PATCH', headers: {'Content-Type': 'application/json'}, body: '{"policy":{"coverage.mode":"off"}}'})`)
		b.wait(`document.querySelector('#log').textContent.includes('Settings changed')`)
		b.say("/preamble It is noon.\n/tool clock {}\n/empty")
		b.wait(mine("It is noon", "unanswered") + ` && ` + idle)
		b.say("/ignore")
		b.wait(mine("/ignore", "unanswered") + ` && ` + idle)
		states := `[...document.querySelectorAll('.row.mine .state')].map(e => e.textContent + (e.checkVisibility() ? '' : ' (hidden)'))`
		want := []string{"Answered", " (hidden)", "No answer"}
		if got := eval[[]string](b, states); !slices.Equal(got, want) {
			t.Errorf("it says %q, want %q", got, want)
		}
		b.picture("unproven")
		b.do(chromedp.Reload())
		b.wait(finals + ` === 3`)
		if got := eval[[]string](b, states); !slices.Equal(got, want) {
			t.Errorf("after a reload it says %q, want %q", got, want)
		}
	})

	t.Run("N-02 N-05 two tabs on one session are in step", func(t *testing.T) {
		b := b.in(t)
		b.fresh()
		b.say("/ask Where to? [north/south]\n/wait 60s\n/say Going $reply")
		b.wait(`!!` + openCard)
		other := b.second()
		other.open(eval[string](b, `location.hash`))
		other.wait(`!!` + openCard)
		other.run(`[...document.querySelectorAll('.choice')].find(e => e.textContent === 'south').click()`)
		b.wait(outcome + ` === 'Answeredsouth' && ` + working)
		b.say("/say first")
		b.say("/say second")
		other.wait(trayItems + ` === 2`)
		// Moved here, withdrawn there; whoever works by keyboard keeps a place.
		other.run(`document.querySelectorAll('#tray li')[1].querySelector('[aria-label="Move up"]').focus()`)
		other.key(kb.Enter)
		b.wait(`document.querySelectorAll('#tray li')[0]?.textContent.includes('second')`)
		other.wait(`document.querySelectorAll('#tray li')[0]?.textContent.includes('second') && document.activeElement.closest('#tray li') === document.querySelectorAll('#tray li')[0]`)
		b.run(`document.querySelectorAll('#tray li')[1].querySelector('[aria-label="Withdraw this message"]').focus()`)
		b.key(kb.Enter)
		other.wait(trayItems + ` === 1 && ` + mine("first", "withdrawn"))
		b.wait(trayItems + ` === 1 && document.activeElement.closest('#tray li') === document.querySelector('#tray li')`)
		other.do(chromedp.Focus("#message"))
		other.key("x")
		other.run(`document.querySelector('#message').select()`)
		other.key(kb.Delete)
		b.run(`document.querySelector('.composer .stop').click()`)
		for _, tab := range []*bench{b, other} {
			tab.wait(idle + ` && ` + mine("/wait 60s", "cancelled") + ` && ` + mine("second", "answered"))
		}
		const log = `document.querySelector('#log').innerText`
		if one, two := eval[string](b, log), eval[string](other, log); one != two {
			t.Errorf("one tab shows\n%s\nthe other\n%s", one, two)
		}
		other.quiet()
	})

	b.quiet()
}

// N-03: kill -9 in mid-answer, under the page.
func TestPageKill(t *testing.T) {
	needBrowser(t)
	data := t.TempDir()
	server := spawn(t, data, "--set", "scripted.token_delay=1s") // it does not come to an end by itself
	b := &bench{t: t, addr: server.addr}
	b.browse()
	b.open("")
	b.say("/stream 300 word")
	b.wait(`!!document.querySelector('.draft') && ` + working)
	b.wait(`performance.getEntriesByType('resource').some(e => e.name.endsWith('/later.js'))`) // nothing is half loaded
	server.kill()
	b.wait(`!document.querySelector('#banner').hidden && document.querySelector('#banner').textContent.includes('Connection lost')`)
	if n := eval[int](b, finals); n != 0 {
		t.Fatalf("%d final answers are shown", n)
	}
	spawn(t, data, "--listen", b.addr)
	b.wait(`document.querySelector('#banner').textContent.includes('Nothing was missed')`)
	b.wait(finals + ` === 1 && ` + idle + ` && ` + mine("/stream", "answered"))
	if rows := eval[int](b, `document.querySelectorAll('#log .row').length`); rows != 2 {
		t.Errorf("%d rows are shown, want 2", rows)
	}
	if n := eval[int](b, lastText+`.split('word').length - 1`); n != 300 {
		t.Errorf("the answer has %d words, want 300", n)
	}
	if n := eval[int](b, `document.querySelectorAll('.draft').length`); n != 0 {
		t.Errorf("%d drafts are left", n)
	}
	b.quiet()
}

// N-06: the page says where an answer was stopped, also when it is opened again.
func TestPageStop(t *testing.T) {
	needBrowser(t)
	server := spawn(t, t.TempDir(), "--set", "scripted.token_delay=200ms")
	b := &bench{t: t, addr: server.addr}
	b.browse()
	b.open("")
	b.say("/stream 300 word")
	b.wait(`document.querySelector('.draft')?.textContent.includes('word word')`)
	b.run(`document.querySelector('.composer .stop').click()`)
	stopped := `document.querySelector('.row.assistant .stopped')?.textContent === 'Stopped here'`
	b.wait(stopped + ` && ` + idle + ` && !document.querySelector('.draft') && ` + mine("/stream", "cancelled"))
	text := eval[string](b, lastText)
	b.do(chromedp.Reload())
	b.wait(stopped + ` && ` + lastText + ` === ` + quoted(text))
	b.quiet()
}

// What is typed in a card is there again when its conversation is, and in the message box
// when the question was answered elsewhere.
func TestPageCardsKeepTexts(t *testing.T) {
	b := newBench(t, askingTools(t))
	b.open("")
	b.fresh()
	b.say("/ask Where to?\n/say Going to $reply")
	b.wait(`!!` + openCard)
	question := eval[string](b, `location.hash`)
	other := b.second()
	other.open(question)
	other.wait(`!!` + openCard)
	const box = openCard + `.querySelector('textarea')`
	b.do(chromedp.Focus(".question textarea"))
	b.key("to the far north")
	b.ask(greetMax)
	approval := eval[string](b, `location.hash`)
	b.press("Edit arguments")
	b.wait(`document.activeElement.getAttribute('aria-label') === 'Arguments'`)
	b.fill(`{"name":"Eve"}`)
	b.run(`location.hash = '` + question + `'`)
	b.wait(box + `?.value === 'to the far north'`)
	b.run(`location.hash = '` + approval + `'`)
	b.wait(box + `?.value === '{"name":"Eve"}' && ` + box + `.checkVisibility()`)

	// The question is answered while its card is not on the screen.
	other.do(chromedp.Focus(".question textarea"))
	other.key("south")
	other.key(kb.Enter)
	other.wait(finals + ` === 1`)
	b.run(`location.hash = '` + question + `'`)
	b.wait(outcome + ` === 'Answeredsouth' && document.querySelector('#message').value === 'to the far north'`)
	b.put("")
	b.run(`location.hash = '` + approval + `'`)
	b.wait(`!!` + openCard)

	// The call is declined in another tab.
	other.run(`location.hash = '` + approval + `'`)
	other.wait(`!!` + openCard)
	other.press("Decline")
	b.wait(outcome + ` === 'Declined' && document.querySelector('#message').value === '{"name":"Eve"}'`)
	if v := eval[string](other, `document.querySelector('#message').value`); v != "" {
		t.Errorf("who declined finds %q in the message box", v)
	}
	b.put("")

	// Who edits and approves, or decides by a button, finds nothing there.
	for _, by := range []string{"Decline", ""} {
		b.ask(greetMax)
		b.press("Edit arguments")
		b.wait(`document.activeElement.getAttribute('aria-label') === 'Arguments'`)
		b.fill(`{"name":"Eve"}`)
		if by == "" {
			b.key(kb.Enter, kb.ModifierCtrl)
		} else {
			b.press(by)
		}
		b.wait(idle + ` && ` + finals + ` === 1`)
		if v := eval[string](b, `document.querySelector('#message').value`); v != "" {
			t.Errorf("%q leaves %q in the message box", by, v)
		}
	}
	b.quiet()
}
