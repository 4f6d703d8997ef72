//go:build e2e

package main

import (
	"os"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// The pictures of the documents. They are made again, when the look has changed, with
//
//	PAGE_SCREENSHOTS=$PWD/docs go test -tags e2e -run '^TestPagePictures$' ./cmd/parley
func TestPagePictures(t *testing.T) {
	if os.Getenv("PAGE_SCREENSHOTS") == "" {
		t.Skip("PAGE_SCREENSHOTS names no folder")
	}
	b := newBench(t, emptyConfig(t))
	b.open("")
	b.say("What is 17 * 23?")
	b.wait(finals + ` === 1 && ` + idle)
	b.fresh()
	b.say("/ask Which environment should it be? [staging/production]\n/say Deploying to $reply")
	b.wait(`!!` + openCard)
	b.fresh()
	b.say("help")
	b.wait(finals + ` === 1 && ` + idle)
	b.fresh()
	b.size(1200, 860)
	b.during("Fix the login bug", "What's the weather?")
	b.wait(finals + ` === 1 && ` + idle)
	b.say("Set up auth")
	b.wait(`!!` + openCard + ` && ` + idle)
	b.run(`document.querySelector('#log .activity').open = true`)
	b.wait(`!document.querySelector('#sessions .unread') && document.querySelectorAll('#sessions .badge.awaiting').length === 2`)
	b.picture("page")

	b.size(1200, 800)
	b.run(`document.querySelectorAll('#sessions a')[2].click()`)
	b.wait(`document.querySelectorAll('.question[data-state=open] .choice').length === 2`)
	b.run(`location.hash = '#/tasks'`)
	b.wait(`document.querySelectorAll('.task-list .pill[data-status=AWAITING_RESPONSE]').length === 2`)
	b.run(`[...document.querySelectorAll('.task-list a')].find(e => e.textContent.startsWith('/ask')).click()`)
	b.wait(`!!document.querySelector('#task-reply') && !document.querySelector('#reply-box').hidden`)
	b.run(`document.querySelector('#task-reply').focus()`)
	b.key("staging, and tell me")
	b.key(kb.Enter, kb.ModifierShift)
	b.key("when it is there")
	b.picture("reply")
	b.quiet()
}
