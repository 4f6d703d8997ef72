//go:build e2e

package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"parley/conversation"
)

// The page in a real browser on the whole server, with the scripted model. Run
// it with: go test -tags e2e -run TestPage ./cmd/parley
//
// PAGE_SCREENSHOTS=DIR writes pictures of what the browser showed into DIR.

// bench is a server and a browser.
type bench struct {
	t      *testing.T
	config string // the configuration file
	data   string
	addr   string
	stop   func()
	logs   bytes.Buffer
	mu     sync.Mutex
	tab    context.Context
	said   []chromedp.ConsoleMessage
}

func (b *bench) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.logs.Write(p)
}

// serve starts the server on the address of the time before, if there was one.
func (b *bench) serve() {
	b.t.Helper()
	listen := b.addr
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	m := NewMain()
	m.Stdout, m.Stderr, m.Environ = b, b, nil
	if err := m.ParseFlags([]string{"--listen", listen, "--config", b.config, "--data", b.data, "--set", "scripted.token_delay=5ms"}); err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	select {
	case <-m.Listening():
	case err := <-ended:
		b.mu.Lock()
		defer b.mu.Unlock()
		b.t.Fatalf("the server ended: %v\n%s", err, b.logs.String())
	}
	b.addr = m.Addr()
	var once sync.Once
	b.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				b.t.Errorf("the server ended with %v", err)
			}
		})
	}
}

func browser() (string, bool) {
	for _, name := range []string{os.Getenv("CHROMIUM"), "chromium", "chromium-browser", "google-chrome"} {
		if name == "" {
			continue
		}
		if path, err := exec.LookPath(name); err == nil {
			return path, true
		}
	}
	return "", false
}

// newBench starts both; more are options of the browser, beyond the usual ones.
func newBench(t *testing.T, config string, more ...chromedp.ExecAllocatorOption) *bench {
	b := &bench{t: t, config: config, data: t.TempDir()}
	needBrowser(t)
	b.serve()
	t.Cleanup(func() { b.stop() })
	b.browse(more...)
	return b
}

// needBrowser skips the test where there is none.
func needBrowser(t *testing.T) string {
	t.Helper()
	path, ok := browser()
	if !ok {
		t.Skip("NOT TESTED: the page in a browser. There is no chromium in PATH; CHROMIUM may name one")
	}
	return path
}

// browse starts the browser.
func (b *bench) browse(more ...chromedp.ExecAllocatorOption) {
	b.t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(needBrowser(b.t)), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"), chromedp.Flag("proxy-server", "direct://"),
		chromedp.UserDataDir(b.t.TempDir()))
	ctx, cancel := chromedp.NewExecAllocator(b.t.Context(), append(options, more...)...)
	b.t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	b.t.Cleanup(cancel)
	b.watch(ctx)
}

// watch makes this tab the bench's own and listens to its console.
func (b *bench) watch(tab context.Context) {
	b.t.Helper()
	b.tab = tab
	b.size(1200, 800)
	go func() { // ends with the tab
		for m, err := range chromedp.Console(tab) {
			if err != nil {
				return
			}
			b.mu.Lock()
			b.said = append(b.said, m)
			b.mu.Unlock()
		}
	}()
}

// second is another tab of the same browser on the same server.
func (b *bench) second() *bench {
	b.t.Helper()
	tab, cancel := chromedp.NewContext(b.tab)
	b.t.Cleanup(cancel)
	other := &bench{t: b.t, addr: b.addr}
	other.watch(tab)
	return other
}

// heard waits until the console has said something with these words.
func (b *bench) heard(words string) {
	b.t.Helper()
	for until := time.Now().Add(patience); ; {
		b.mu.Lock()
		said := slices.ContainsFunc(b.said, func(m chromedp.ConsoleMessage) bool { return strings.Contains(m.Text, words) })
		b.mu.Unlock()
		if said {
			return
		}
		if time.Now().After(until) {
			b.t.Fatalf("the console does not say %q", words)
		}
		eval[bool](b, `true`) // what the browser had to say before comes before its answer, or soon
	}
}

// quiet fails if the console holds an error or a warning: an exception, something
// that did not load, a violation of the content security policy.
func (b *bench) quiet() {
	b.t.Helper()
	b.run(`console.info('that is all')`)
	b.heard("that is all")
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.said {
		if strings.Contains(m.Text, "ERR_CONNECTION_REFUSED") { // while the server was down
			continue
		}
		if m.Type == "error" || m.Type == "warning" || m.Type == chromedp.ConsoleException {
			b.t.Errorf("the console says %s: %s (%s:%d)", m.Type, m.Text, m.URL, m.Line)
		}
	}
}

func (b *bench) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.tab, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// eval is the value of a JavaScript expression.
func eval[T any](b *bench, js string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.tab, chromedp.Evaluate[T](js))
	if err != nil {
		b.t.Fatalf("%s: %v", js, err)
	}
	return v
}

func (b *bench) run(js string) { b.t.Helper(); eval[bool](b, "("+js+", true)") }

// wait returns when a JavaScript expression has become true.
func (b *bench) wait(js string) {
	b.t.Helper()
	if _, err := chromedp.Run(b.tab, chromedp.Poll[bool](js, chromedp.WithPollingTimeout(patience))); err != nil {
		text, _ := chromedp.Run(b.tab, chromedp.Evaluate[string]("document.body.innerText"))
		b.mu.Lock()
		defer b.mu.Unlock()
		b.t.Fatalf("waiting for %s: %v\nthe page shows:\n%s\nthe console says: %v\nthe server says:\n%s", js, err, text, b.said, b.logs.String())
	}
}

func (b *bench) size(width, height int64) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, height))
}

func (b *bench) key(keys string, mods ...chromedp.Modifier) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(keys, chromedp.KeyModifiers(mods...)))
}

// say types a message, with Shift+Enter between its lines, and presses Enter.
func (b *bench) say(text string) {
	b.t.Helper()
	b.do(chromedp.Focus("#message"))
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			b.key(kb.Enter, kb.ModifierShift)
		}
		b.key(line)
	}
	b.key(kb.Enter)
}

// put makes this the text of the message box, at once; paste sends it, too.
func (b *bench) put(text string) {
	b.t.Helper()
	b.do(chromedp.Focus("#message"))
	b.run(fmt.Sprintf(`(e => { e.value = %q; e.dispatchEvent(new Event('input', {bubbles: true})); })(document.querySelector('#message'))`, text))
}

func (b *bench) paste(text string) {
	b.t.Helper()
	b.put(text)
	b.key(kb.Enter)
}

// during sends a message that is delegated to the developer, and the second one
// while that goes on: written before, so that the two seconds are enough.
func (b *bench) during(first, second string) {
	b.t.Helper()
	b.say(first)
	b.put(second)
	b.wait(mine(first, "read") + ` && document.querySelector('#activity').textContent.includes('developer')`)
	b.key(kb.Enter)
}

func (b *bench) open(hash string) {
	b.t.Helper()
	b.do(chromedp.Navigate("http://" + b.addr + "/" + hash))
	b.wait(`document.querySelector('#connection').dataset.state === 'open'`)
}

func (b *bench) fresh() {
	b.t.Helper()
	b.run(`document.querySelector('#new').click()`)
	b.wait(`!!document.querySelector('.examples') && document.querySelectorAll('#log .row').length === 0 && document.activeElement.id === 'message' && !document.activeElement.value`)
}

// picture brings movements to their end and, where PAGE_SCREENSHOTS names a folder, makes a picture.
func (b *bench) picture(name string) {
	b.t.Helper()
	b.run(`document.getAnimations().filter(a => a.effect.getTiming().iterations !== Infinity).forEach(a => a.finish())`)
	dir := os.Getenv("PAGE_SCREENSHOTS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(b.tab, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/"+name+".png", png, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// mine is a user's bubble with this text and this state.
func mine(text, state string) string {
	return fmt.Sprintf(`[...document.querySelectorAll('.row.mine')].some(e => e.querySelector('.text').textContent.includes(%q) && e.dataset.state === %q)`, text, state)
}

const (
	working   = `!document.querySelector('#working').hidden`
	idle      = `document.querySelector('#working').hidden`
	answers   = `document.querySelectorAll('#log .assistant').length`
	finals    = `document.querySelectorAll('#log .assistant[data-final=true]').length`
	trayItems = `document.querySelectorAll('#tray li').length`
)

func TestPage(t *testing.T) {
	b := newBench(t, emptyConfig(t))
	b.open("")

	t.Run("it is what it says, and says so", func(t *testing.T) {
		b := b.in(t)
		b.wait(`document.querySelectorAll('.example').length === 3`)
		if text := eval[string](b, `document.querySelector('#demo').hidden ? '' : document.querySelector('#demo').textContent`); text != "scripted demo model: rules, not AI" {
			t.Errorf("the badge of the model says %q", text)
		}
		if !eval[bool](b, `document.querySelector('.send').disabled`) {
			t.Error("an empty message could be sent")
		}
		b.picture("empty")
	})

	t.Run("D-11 D-12 D-18 two tasks, answered one by one while the first goes on", func(t *testing.T) {
		b := b.in(t)
		// What the page shows at each change, to be judged at the end: whether the
		// indicator was there, how many final answers, and whether a draft was seen.
		b.run(`(window.saw = [], window.drafts = 0, new MutationObserver(() => {
			const s = (document.querySelector('#working').hidden ? 'idle' : 'working') + ' ' + ` + finals + `;
			if (saw.at(-1) !== s) saw.push(s);
			if (document.querySelector('.draft')) drafts++;
		}).observe(document.querySelector('#scroller'), {subtree: true, childList: true, attributes: true, characterData: true}))`)
		b.during("Fix the login bug", "What's the weather?")
		b.wait(answers + ` === 1`)
		if eval[int](b, finals) != 0 {
			t.Fatal("the first answer is shown as the final one")
		}
		if !eval[bool](b, working) {
			t.Error("D-12: the indicator went before the task's end")
		}
		if !eval[bool](b, `!!document.querySelector('.assistant .activity summary') && document.querySelector('.assistant .activity').textContent.includes('developer')`) {
			t.Error("D-11: what was done before the partial answer is not under it")
		}
		b.wait(finals + ` === 1 && ` + idle)
		b.wait(mine("Fix the login bug", "answered") + ` && ` + mine("What's the weather?", "answered"))
		if n := eval[int](b, answers); n != 2 {
			t.Errorf("%d answers are shown, want 2", n)
		}
		if !eval[bool](b, `document.querySelectorAll('.assistant')[1].querySelector('.quote')?.textContent === 'Fix the login bug'`) {
			t.Error("the final answer does not quote what it answers")
		}
		if !eval[bool](b, `document.querySelectorAll('.assistant')[1].querySelector('.activity')?.textContent.includes('finished')`) {
			t.Error("D-11: what was done after the partial answer is not under the final one")
		}
		saw := strings.Join(eval[[]string](b, `saw`), ", ")
		if _, busy, ok := strings.Cut(saw, "working 0"); !ok || !strings.HasSuffix(busy, "idle 1") || strings.Count(busy, "idle") != 1 {
			t.Errorf("D-12: indicator and final answers went: %s", saw)
		}
		if eval[int](b, `drafts`) == 0 {
			t.Error("no draft was shown while the answer streamed")
		}
		if n := eval[int](b, `document.querySelectorAll('.draft').length`); n != 0 {
			t.Errorf("%d drafts are left", n)
		}
		b.wait(`[...document.querySelectorAll('#sessions .session-title')].some(e => e.textContent === 'Fix the login bug')`)
		b.wait(`!document.querySelector('#sessions .badge')`)
		b.picture("two-tasks")
		b.run(`document.documentElement.dataset.theme = 'dark'`)
		b.picture("dark")
		b.run(`delete document.documentElement.dataset.theme`)
	})

	t.Run("a delegate's conversation can be read and not written", func(t *testing.T) {
		b := b.in(t)
		b.run(`(document.querySelector('.assistant .activity').open = true, document.querySelector('.assistant .activity .link-button').click())`)
		b.wait(`document.querySelector('#subtitle').textContent.includes('read only') && ` + answers + ` === 1`)
		if !eval[bool](b, `document.querySelector('.composer').hidden && !document.querySelector('.row.mine') && document.querySelector('.row.user .who').textContent === 'Objective'`) {
			t.Error("the delegate's conversation looks like the user's own")
		}
		b.run(`document.querySelector('#parent').click()`)
		b.wait(answers + ` === 2 && !document.querySelector('.composer').hidden`)
		if low := eval[float64](b, `document.querySelector('#message').offsetHeight`); low < 20 {
			t.Errorf("the message box came back %v px high", low)
		}
	})

	t.Run("R-16 Enter sends, Shift+Enter and an input method's Enter do not", func(t *testing.T) {
		b := b.in(t)
		b.do(chromedp.Focus("#message"))
		low := eval[float64](b, `document.querySelector('#message').offsetHeight`)
		rows := eval[int](b, `document.querySelectorAll('#log .row').length`)
		b.key("one")
		b.key(kb.Enter, kb.ModifierShift)
		b.key("two")
		if v := eval[string](b, `document.querySelector('#message').value`); v != "one\ntwo" {
			t.Fatalf("the box holds %q", v)
		}
		if high := eval[float64](b, `document.querySelector('#message').offsetHeight`); high <= low {
			t.Errorf("the box did not grow: %v, then %v", low, high)
		}
		for _, event := range []string{`isComposing: true`, `keyCode: 229`} {
			b.run(`document.querySelector('#message').dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', ` + event + `, bubbles: true, cancelable: true}))`)
		}
		if v := eval[string](b, `document.querySelector('#message').value`); v != "one\ntwo" {
			t.Errorf("the Enter that ends a composition sent the message; the box holds %q", v)
		}
		for range 40 {
			b.key(kb.Enter, kb.ModifierShift)
		}
		if !eval[bool](b, `(e => e.scrollHeight > e.clientHeight && e.offsetHeight < 260 && getComputedStyle(e).overflowY === 'auto')(document.querySelector('#message'))`) {
			t.Error("a long text does not scroll in a box of bounded height")
		}
		if n := eval[int](b, `document.querySelectorAll('#log .row').length`); n != rows {
			t.Errorf("%d rows are shown, want %d: something was sent", n, rows)
		}
		b.run(`(e => { e.value = ' \n '; e.dispatchEvent(new Event('input')); })(document.querySelector('#message'))`)
		if !eval[bool](b, `document.querySelector('.send').disabled`) {
			t.Error("a blank message could be sent")
		}
		b.run(`(e => { e.value = ''; e.dispatchEvent(new Event('input')); })(document.querySelector('#message'))`)
	})

	t.Run("D-19 a question is a card; its choice answers it", func(t *testing.T) {
		b := b.in(t)
		b.fresh()
		b.say("Set up auth")
		b.wait(`document.querySelectorAll('.question[data-state=open] .choice').length === 2`)
		b.wait(`document.activeElement.id === 'message'`)
		b.picture("question")
		b.run(`[...document.querySelectorAll('.choice')].find(e => e.textContent === 'JWT').click()`)
		b.wait(`!!document.querySelector('.question[data-state=answered]')`)
		b.wait(finals + ` === 1 && ` + idle)
		b.wait(mine("Set up auth", "answered"))
		if !eval[bool](b, `[...document.querySelectorAll('.assistant')].at(-1).textContent.includes('JWT')`) {
			t.Error("the final answer does not name the choice")
		}
	})

	t.Run("N-05 N-06 waiting messages are changed, moved and withdrawn; stop stops", func(t *testing.T) {
		b := b.in(t)
		b.fresh()
		b.say("/wait 60s\n/say too late")
		b.wait(mine("too late", "read"))
		b.say("/say first")
		b.say("/say second")
		b.say("/say third")
		b.wait(trayItems + ` === 3`)
		b.run(`document.querySelectorAll('#tray li')[2].querySelector('[aria-label="Move up"]').click()`)
		b.wait(`document.querySelectorAll('#tray li')[1].textContent.includes('third')`)
		b.run(`document.querySelectorAll('#tray li')[0].querySelector('[aria-label="Withdraw this message"]').click()`)
		b.wait(trayItems + ` === 2 && ` + mine("first", "withdrawn"))
		b.run(`document.querySelectorAll('#tray li')[0].querySelector('[aria-label="Edit this message"]').click()`)
		b.wait(`document.activeElement.value === '/say third'`)
		b.key(" and last")
		b.key(kb.Enter)
		b.wait(mine("third and last", "queued"))
		b.picture("waiting")
		b.run(`[...document.querySelectorAll('#tray button')].find(e => e.textContent === 'Stop and drop all').click()`)
		b.run(`document.querySelector('dialog .danger').click()`)
		b.wait(mine("too late", "cancelled") + ` && ` + mine("second", "cancelled") + ` && ` + idle)
		b.wait(trayItems + ` === 0`)
		b.say("/wait 60s\n/say never")
		b.wait(mine("never", "read"))
		b.run(`document.querySelector('.composer .stop').click()`)
		b.wait(mine("never", "cancelled") + ` && ` + idle)
	})

	t.Run("R-15 R-16 R-17 R-18 the reply box of a task", func(t *testing.T) {
		b := b.in(t)
		b.fresh()
		b.say("/ask Where to?\n/say Going to $reply")
		b.wait(`!!document.querySelector('.question[data-state=open]')`)
		b.run(`location.hash = '#/tasks'`)
		b.wait(`!!document.querySelector('.task-list .pill[data-status=AWAITING_RESPONSE]')`)
		b.run(`[...document.querySelectorAll('.filter-button')].find(e => e.dataset.status === 'AWAITING_RESPONSE').click()`)
		b.wait(`document.querySelectorAll('.task-list li').length === 1`)
		b.picture("tasks")
		b.run(`document.querySelector('.task-list a').click()`)
		b.wait(`!!document.querySelector('#task-reply') && !document.querySelector('#reply-box').hidden`)
		if p := eval[string](b, `document.querySelector('#task-reply').placeholder`); p != "Type your reply..." {
			t.Errorf("the placeholder is %q", p)
		}
		const send = `document.querySelector('#reply-box .send').disabled`
		if !eval[bool](b, send) {
			t.Error("R-17: an empty reply could be sent")
		}
		b.do(chromedp.Focus("#task-reply"))
		b.key("north")
		b.key(kb.Enter, kb.ModifierShift)
		b.key("please")
		if eval[bool](b, send) {
			t.Error("a reply could not be sent")
		}
		b.picture("task")
		// the page believes that the task waits; the server says that it does not.
		b.run(`(window.posts = 0, window.real = fetch, window.fetch = async (url, o) => {
			if (o?.method === 'POST') posts++;
			const r = await real(url, o);
			if (!/^\/api\/tasks\/[^/?]+$/.test(url)) return r;
			const d = await r.json();
			return new Response(JSON.stringify({...d, status: 'RUNNING'}), {status: 200});
		})`)
		b.key(kb.Enter)
		b.wait(`[...document.querySelectorAll('.form-error')].some(e => !e.hidden && e.textContent.includes('no longer waits'))`)
		if n := eval[int](b, `posts`); n != 0 {
			t.Errorf("R-18: the reply was sent %d times although the status had changed", n)
		}
		b.wait(`document.querySelector('#reply-box').hidden`)
		b.run(`(window.fetch = real, dispatchEvent(new HashChangeEvent('hashchange')))`) // looks again
		b.wait(`!document.querySelector('#reply-box').hidden`)
		if v := eval[string](b, `document.querySelector('#task-reply').value`); v != "north\nplease" {
			t.Errorf("the reply that was refused is lost; the box holds %q", v)
		}
		b.do(chromedp.Focus("#task-reply"))
		b.key(kb.Enter)
		b.wait(`document.querySelector('.pill').dataset.status === 'COMPLETE'`)
		if !eval[bool](b, `document.querySelector('#reply-box').hidden && document.querySelector('.history').textContent.includes('north')`) {
			t.Error("R-15: the reply box is still there, or the reply is not in the history")
		}
		if !eval[bool](b, `document.querySelector('.outputs').textContent.includes('Going to north')`) {
			t.Error("the output does not show the continuation")
		}
	})

	t.Run("N-03 a restart is survived: banner, resumed, nothing lost and nothing twice", func(t *testing.T) {
		b := b.in(t)
		b.open("#/")
		b.say("/say before")
		b.wait(finals + ` === 1 && ` + idle)
		b.stop()
		b.wait(`!document.querySelector('#banner').hidden && document.querySelector('#banner').textContent.includes('Connection lost')`)
		b.say("/say written offline")
		b.wait(mine("written offline", "sending"))
		b.picture("offline")
		b.serve()
		b.wait(`document.querySelector('#banner').textContent.includes('Nothing was missed')`)
		b.wait(mine("written offline", "answered") + ` && ` + finals + ` === 2 && ` + idle)
		if n := eval[int](b, `document.querySelectorAll('#log .row').length`); n != 4 {
			t.Errorf("%d rows are shown, want 4", n)
		}
		b.do(chromedp.Reload())
		b.wait(`document.querySelectorAll('#log .row').length === 4`)
	})

	t.Run("it fits a phone", func(t *testing.T) {
		b := b.in(t)
		for _, width := range []int64{320, 360, 390, 420} {
			b.size(width, 740)
			for _, hash := range []string{"", "#/tasks"} {
				if hash != "" {
					b.run(`location.hash = '#/tasks'`)
					b.wait(`!!document.querySelector('.task-list a')`)
				}
				if over := eval[int](b, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
					t.Errorf("at %d px the page %q is %d px too wide", width, hash, over)
				}
				if out := eval[[]string](b, `[...document.querySelectorAll('main button, main textarea, main .bubble')].filter(e => e.offsetParent && (e.getBoundingClientRect().right > innerWidth + 1 || e.getBoundingClientRect().left < -1)).map(e => e.className || e.id)`); len(out) > 0 {
					t.Errorf("at %d px these are cut: %v", width, out)
				}
			}
			b.run(`history.back()`)
			b.wait(`document.querySelector('#tasks').hidden`)
		}
		b.run(`document.querySelector('.menu-button').click()`)
		b.wait(`document.querySelector('#sidebar').classList.contains('open')`)
		b.key(kb.Escape)
		b.wait(`!document.querySelector('#sidebar').classList.contains('open')`)
		b.picture("phone")
		b.size(1200, 800)
	})

	t.Run("it is dark where it should be", func(t *testing.T) {
		b := b.in(t)
		const ground = `getComputedStyle(document.body).backgroundColor`
		was := eval[string](b, ground)
		b.run(`document.querySelector('#theme').click()`) // light
		b.run(`document.querySelector('#theme').click()`) // dark
		if eval[string](b, ground) == was {
			t.Error("the theme button changes nothing")
		}
		b.do(chromedp.Reload())
		b.wait(`document.documentElement.dataset.theme === 'dark'`)
		b.run(`document.querySelector('#theme').click()`)
	})

	b.quiet()
}

// in is the same bench for a sub-test.
func (b *bench) in(t *testing.T) *bench {
	parent := b.t
	b.t = t
	t.Cleanup(func() { b.t = parent })
	return b
}

// The policy that the page is written for is the one that it is served with.
func TestPageHeaders(t *testing.T) {
	b := &bench{t: t, config: emptyConfig(t), data: t.TempDir()}
	b.serve()
	defer func() { b.stop() }()
	res, err := http.Get("http://" + b.addr + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	policy := res.Header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("the policy %q lacks %s", policy, want)
		}
	}
	if strings.Contains(policy, "unsafe") {
		t.Errorf("the policy %q is open", policy)
	}
}

// Every durable event has a place in the page.
func TestPageKnowsEveryEvent(t *testing.T) {
	store, err := os.ReadFile("../../gateway/web/page/store.js")
	if err != nil {
		t.Fatal(err)
	}
	from, to := bytes.Index(store, []byte("const durable = {")), bytes.Index(store, []byte("export const DURABLE"))
	if from < 0 || to < from {
		t.Fatal("store.js has no table of durable events")
	}
	found := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^  (\w+)\(v, f, d\) `).FindAllSubmatch(store[from:to], -1) {
		found[string(m[1])] = true
	}
	for _, kind := range conversation.EventKinds() {
		if !found[kind.String()] {
			t.Errorf("store.js does not know %s", kind)
		}
		delete(found, kind.String())
	}
	for name := range found {
		t.Errorf("store.js knows %s, which is no event", name)
	}
}
