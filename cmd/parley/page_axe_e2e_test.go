//go:build e2e

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// axe is the pinned axe-core, which .ci/setup has fetched.
func axe(t *testing.T) string {
	t.Helper()
	pin, err := os.ReadFile("testdata/axe.txt")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../.tools/axe.min.js")
	if err != nil {
		t.Skip("NOT TESTED: the page with axe. There is no .tools/axe.min.js; make setup fetches it by npm")
	}
	sum := sha256.Sum256(text)
	if !strings.Contains(string(pin), hex.EncodeToString(sum[:])) {
		t.Fatal(".tools/axe.min.js is not the one that testdata/axe.txt pins: make setup")
	}
	return string(text)
}

// Each view of the page, on a desktop, on a phone and in the dark, has nothing that axe-core
// calls a violation. What order the headings of a message have is left to who wrote it. A new
// view is a new line here, and PAGE_SCREENSHOTS names a folder for a picture of each.
func TestPageAxe(t *testing.T) {
	judge := axe(t)
	b := newBench(t, askingTools(t))
	b.open("")
	b.ask(greetMax)
	b.fresh()
	b.paste("# A heading\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n- [x] done\n\n```go\nfunc main() {}\n```\n\n[a link](https://example.org) and $x^2$")
	b.wait(finals + ` === 1 && ` + idle)
	b.say("Fix the login bug")
	b.wait(finals + ` === 2 && ` + idle)
	b.say("/ask Which environment? [staging/production]")
	b.wait(`!!` + openCard)
	const (
		conversation = `document.querySelectorAll('#sessions a')[0].click()`
		approval     = `document.querySelectorAll('#sessions a')[1].click()`
	)
	click := func(label string) string {
		return `[...document.querySelectorAll('[aria-label="` + label + `"]')].find(e => e.checkVisibility({visibilityProperty: true})).click()`
	}
	views := []struct{ name, open, there, leave string }{
		{"nothing yet", `document.querySelector('#new').click()`, `!document.querySelector('#empty').hidden && !!document.querySelector('.examples')`, ``},
		{"a conversation", conversation, `!!` + openCard + ` && document.querySelectorAll('#log .hl-keyword').length > 0`, ``},
		{"its work", `document.querySelector('#log .activity').open = true`, `true`, ``},
		{"a menu", `document.querySelector('.row-more').click()`, `!!document.querySelector('.menu')`, `document.querySelector('.row-more').click()`},
		{"settings", click("Settings of this conversation"), `!!document.querySelector('dialog.panel')`, `document.querySelector('dialog').close()`},
		{"export", click("Export this conversation"), `!!document.querySelector('dialog')`, `document.querySelector('dialog').close()`},
		{"deletion", `(document.querySelector('.row-more').click(), [...document.querySelectorAll('.menu [role=menuitem]')].find(e => e.textContent.startsWith('Delete')).click())`, `!!document.querySelector('dialog')`, `document.querySelector('dialog').close()`},
		{"an approval", approval, `!!document.querySelector('.question.approval[data-state=open]')`, ``},
		{"other arguments", `[...document.querySelectorAll('.question button')].find(e => e.textContent === 'Edit arguments').click()`, `document.activeElement.getAttribute('aria-label') === 'Arguments'`, ``},
		{"tasks", `location.hash = '#/tasks'`, `document.querySelectorAll('.task-list a').length > 2`, ``},
		{"a task", `document.querySelector('.task-list .pill[data-status=AWAITING_RESPONSE]').closest('a').click()`, `!!document.querySelector('#task-reply') && !document.querySelector('#reply-box').hidden`, `location.hash = '#/'`},
		{"the sheet of keys", ``, `!!document.querySelector('dialog.sheet')`, `document.querySelector('dialog').close()`},
		{"the palette", ``, `document.querySelectorAll('.palette [role=option]').length > 0`, `document.querySelector('dialog').close()`},
	}
	for _, mode := range []string{"desktop", "dark", "360 px"} {
		t.Run(mode, func(t *testing.T) {
			b := b.in(t)
			b.media("prefers-color-scheme", map[bool]string{true: "dark", false: "light"}[mode == "dark"])
			if mode == "360 px" {
				b.do(chromedp.EmulateViewport(360, 740))
			}
			for _, v := range views {
				switch v.name {
				case "the palette":
					b.key("k", kb.ModifierCtrl)
				case "the sheet of keys":
					b.run(`document.activeElement.blur()`)
					b.key("?")
				default:
					b.run(v.open)
				}
				b.wait(v.there)
				b.picture(strings.ReplaceAll(mode+" "+v.name, " ", "-"))
				if !eval[bool](b, `!!globalThis.axe`) {
					eval[bool](b, judge+"\n;true")
				}
				b.run(`(window.judged = null, axe.run(document, {resultTypes: ['violations']}).then(r => { judged = r.violations.flatMap(v => v.nodes.filter(n => !(v.id === 'heading-order' && document.querySelector(n.target[0])?.closest('.text'))).map(n => v.id + ': ' + n.target.join(' ') + ' ' + n.failureSummary.replace(/\s+/g, ' '))); }, err => { judged = [String(err)]; }))`)
				b.wait(`!!window.judged`)
				for _, line := range eval[[]string](b, `judged`) {
					t.Errorf("%s: %s", v.name, line)
				}
				if v.leave != "" {
					b.run(v.leave)
				}
			}
		})
	}
}
