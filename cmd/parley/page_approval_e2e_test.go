//go:build e2e

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// askingTools is a configuration with a tool that a person must allow: hi_greet.
func askingTools(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return write(t, `[[mcp]]
name = "hello"
command = "`+self+`"
env = { "`+mcpVariable+`" = "1" }
allow = ["greet"]
approval = "ask"
prefix = "hi_"
`)
}

const (
	openCard = `document.querySelector('.question[data-state=open]')`
	lastCard = `[...document.querySelectorAll('.question')].at(-1)`
	outcome  = lastCard + `?.querySelector('.outcome')?.textContent`
	lastText = `[...document.querySelectorAll('#log .assistant .text')].at(-1)?.textContent`
	greetMax = "/tool hi_greet {\"name\":\"Max\"}\n/say $result"
)

// press clicks the button with this label on the open card.
func (b *bench) press(label string) {
	b.t.Helper()
	b.do(chromedp.Focus("#message")) // so that the click is the only way to where the focus goes
	b.run(`[...` + openCard + `.querySelectorAll('button')].find(e => e.textContent === '` + label + `').click()`)
}

// fill replaces what the box that has the focus holds.
func (b *bench) fill(text string) {
	b.t.Helper()
	b.run(`document.activeElement.select()`)
	b.key(kb.Delete)
	b.key(text)
}

// ask sends a message whose first call needs an approval and waits for its card.
func (b *bench) ask(text string) {
	b.t.Helper()
	b.fresh()
	b.say(text)
	b.wait(`!!` + openCard)
}

// ended waits for the outcome on the card and for the final answer.
func (b *bench) ended(how, answer string) {
	b.t.Helper()
	b.wait(outcome + ` === '` + how + `'`)
	b.wait(finals + ` === 1 && ` + idle)
	if text := eval[string](b, lastText); text != answer {
		b.t.Errorf("the answer is %q, want %q", text, answer)
	}
}

// D-14, R-13 on the page: a call that a person must allow.
func TestPageApprovals(t *testing.T) {
	b := newBench(t, askingTools(t))
	b.open("")
	const declined = "denied: the user declined this call"

	t.Run("the card shows the call; approved, it runs", func(t *testing.T) {
		b := b.in(t)
		b.ask(greetMax)
		if text := eval[string](b, openCard+`.querySelector('.question-title').textContent + '|' + `+openCard+`.querySelector('.code-head').textContent + '|' + `+openCard+`.querySelector('pre').textContent`); text != "Approval needed|hi_greet|{\n  \"name\": \"Max\"\n}" {
			t.Errorf("the card shows %q", text)
		}
		b.wait(`[...document.querySelectorAll('#sessions .badge')].some(e => e.textContent === 'awaiting you')`)
		b.picture("approval")
		b.press("Approve")
		b.ended("Approved", "Hello Max, the token has 0 characters.")
		b.picture("approved")
	})

	t.Run("declined, it does not run", func(t *testing.T) {
		b := b.in(t)
		b.ask(greetMax)
		b.press("Decline")
		b.ended("Declined", declined)
		if !eval[bool](b, `[...document.querySelectorAll('.activity')].at(-1).textContent.includes('hi_greetdeclined')`) {
			t.Error("the activity does not say that the call was declined")
		}
	})

	t.Run("yes and no are understood as messages, too", func(t *testing.T) {
		b := b.in(t)
		b.ask(greetMax)
		b.say("Nope.")
		b.ended("Declined", declined)
		b.ask(greetMax)
		b.say("go ahead")
		b.ended("Approved", "Hello Max, the token has 0 characters.")
	})

	t.Run("other arguments: what is no object, or does not fit, is not sent", func(t *testing.T) {
		b := b.in(t)
		b.ask(greetMax)
		b.run(`(window.sent = [], window.realSend = WebSocket.prototype.send, WebSocket.prototype.send = function (x) { if (JSON.parse(x).type === 'answer') sent.push(x); return realSend.call(this, x); })`)
		b.press("Edit arguments")
		const box = `document.activeElement.getAttribute('aria-label') === 'Arguments'`
		b.wait(box)
		if v := eval[string](b, `document.activeElement.value`); v != "{\n  \"name\": \"Max\"\n}" {
			t.Errorf("the box starts with %q", v)
		}
		const wrong = openCard + `.querySelector('.form-error')`
		for text, says := range map[string]string{`{"name":`: "not valid JSON", `["Max"]`: "must be a JSON object", `null`: "must be a JSON object", `"Max"`: "must be a JSON object"} {
			b.fill(text)
			b.wait(wrong + `.hidden`)
			b.key(kb.Enter, kb.ModifierCtrl)
			b.wait(`!` + wrong + `.hidden && ` + wrong + `.textContent.includes('` + says + `') && document.activeElement.getAttribute('aria-invalid') === 'true'`)
		}
		b.picture("arguments")
		// Enter alone is a line of the arguments, not an approval.
		b.fill(`{"name":`)
		b.key(kb.Enter)
		if v := eval[string](b, `document.activeElement.value`); v != "{\"name\":\n" {
			t.Errorf("Enter left %q in the box", v)
		}
		if n := eval[int](b, `sent.length`); n != 0 {
			t.Fatalf("%d answers were sent", n)
		}
		// The server knows what fits the tool; the card stays open.
		b.fill(`{"nome":"Eve"}`)
		b.key(kb.Enter, kb.ModifierCtrl)
		b.wait(`[...document.querySelectorAll('.toast.bad')].some(e => e.textContent.includes('do not fit'))`)
		b.wait(`!!` + openCard + ` && ` + box)
		b.fill(`{"name":"Eve"}`)
		b.key(kb.Enter, kb.ModifierCtrl)
		b.ended("Approved with other arguments", "Hello Eve, the token has 0 characters.")
		if n := eval[int](b, `sent.length`); n != 2 {
			t.Errorf("%d answers were sent, want 2", n)
		}
		if !eval[bool](b, `document.activeElement.classList.contains('outcome')`) {
			t.Errorf("the focus is lost on %q", eval[string](b, `document.activeElement.outerHTML.slice(0, 80)`))
		}
		b.run(`(WebSocket.prototype.send = realSend, document.querySelectorAll('.toast button').forEach(e => e.click()))`)
	})

	t.Run("digit for digit: shown, approved and told to the tool", func(t *testing.T) {
		b := b.in(t)
		const long = "9007199254740993"
		b.ask("/tool hi_greet {\"name\":\"Max\",\"id\":" + long + "}\n/say $result")
		if text := eval[string](b, openCard+`.querySelector('pre').textContent`); !strings.Contains(text, `"id": `+long+"\n") {
			t.Errorf("the card shows %q", text)
		}
		b.press("Edit arguments")
		b.wait(`document.activeElement.getAttribute('aria-label') === 'Arguments'`)
		if v := eval[string](b, `document.activeElement.value`); !strings.Contains(v, long) {
			t.Errorf("the box starts with %q", v)
		}
		b.fill(`{"name":"Eve","id":` + long + `}`)
		b.key(kb.Enter, kb.ModifierCtrl)
		b.ended("Approved with other arguments", "Hello Eve, the token has 0 characters. You are "+long+".")
		b.wait(`[...document.querySelectorAll('.activity .line-text')].some(e => e.textContent.includes('` + long + `'))`)
		b.run(`[...document.querySelectorAll('.activity button')].find(e => e.textContent === 'Details').click()`)
		b.wait(`document.querySelector('dialog pre')?.textContent.includes('` + long + `')`)
		b.run(`document.querySelector('dialog button[type=submit]').click()`)
		b.do(chromedp.Reload())
		b.wait(`[...document.querySelectorAll('.row.mine .text')].some(e => e.textContent.includes('"id": ` + long + `'))`)
	})

	t.Run("a delegate's call needs an approval here", func(t *testing.T) {
		b := b.in(t)
		b.ask("/delegate communicator /tool hi_greet {\"name\":\"Max\"} && /say $result\n/say $result")
		if text := eval[string](b, openCard+`.querySelector('.question-title').textContent`); text != "communicator needs your approval" {
			t.Errorf("the card is titled %q", text)
		}
		b.press("Decline")
		b.ended("Declined", declined)
	})

	t.Run("the task's reply box shows the call, too", func(t *testing.T) {
		b := b.in(t)
		b.ask(greetMax)
		b.run(`location.hash = '#/tasks'`)
		b.wait(`!!document.querySelector('.task-list .pill[data-status=AWAITING_RESPONSE]')`)
		b.run(`document.querySelector('.task-list .pill[data-status=AWAITING_RESPONSE]').closest('a').click()`)
		b.wait(`!!document.querySelector('#task-reply') && !document.querySelector('#reply-box').hidden`)
		if text := eval[string](b, `document.querySelector('#reply-box .code').textContent`); text != "hi_greet{\n  \"name\": \"Max\"\n}" {
			t.Errorf("the reply box shows %q", text)
		}
		b.picture("task-approval")
		b.run(`[...document.querySelectorAll('#reply-box .choice')].find(e => e.textContent === 'Approve').click()`)
		b.wait(`document.querySelector('.pill').dataset.status === 'COMPLETE' && document.querySelector('#reply-box').hidden && document.querySelector('.outputs').textContent.includes('Hello Max')`)
		b.run(`location.hash = '#/'`)
		b.wait(`document.querySelector('#tasks').hidden`)
	})

	t.Run("it survives a reload and a restart while it is open", func(t *testing.T) {
		b := b.in(t)
		b.ask(greetMax)
		b.do(chromedp.Reload())
		b.wait(`!!` + openCard + ` && ` + openCard + `.querySelectorAll('.choice').length === 3`)
		b.stop()
		b.wait(`document.querySelector('#connection').dataset.state === 'waiting'`)
		b.serve()
		b.wait(`document.querySelector('#connection').dataset.state === 'open'`)
		b.do(chromedp.Reload())
		b.wait(`!!` + openCard + ` && ` + openCard + `.querySelector('pre').textContent.includes('Max')`)
		b.press("Approve")
		b.ended("Approved", "Hello Max, the token has 0 characters.")
		b.do(chromedp.Reload())
		b.ended("Approved", "Hello Max, the token has 0 characters.")
	})

	b.quiet()
}
