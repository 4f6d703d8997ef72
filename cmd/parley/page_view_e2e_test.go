//go:build e2e

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// talk makes a conversation of these messages, each answered before the next one.
func (l *live) talk(messages ...string) (session string) {
	l.t.Helper()
	_, body := l.do("POST", "/api/sessions", `{}`)
	var made struct {
		Session string `json:"session"`
	}
	if err := json.Unmarshal(body, &made); err != nil || made.Session == "" {
		l.t.Fatalf("no session: %s", body)
	}
	for i, text := range messages {
		status, body := l.do("POST", "/api/sessions/"+made.Session+"/messages?wait=60s", fmt.Sprintf(`{"client_msg_id":"m%d","text":%q}`, i, text))
		if status/100 != 2 {
			l.t.Fatalf("%d %s", status, body)
		}
	}
	return made.Session
}

// turns are n messages with plain answers.
func turns(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("/say answer %d", i+1)
	}
	return out
}

// wheel turns the mouse's wheel over the conversation and waits until that is on the screen.
func (b *bench) wheel(by float64) {
	b.t.Helper()
	b.do(chromedp.MouseEvent(chromedp.MouseWheel, 700, 200, func(p *input.DispatchMouseEventParams) { p.DeltaX, p.DeltaY = 1e-6, by })) // none at all would be left out
	b.frame()
}

// frame waits until the page was painted, twice: what one frame did is seen in the next.
func (b *bench) frame() {
	b.t.Helper()
	b.run(`(window.painted = false, requestAnimationFrame(() => requestAnimationFrame(() => { painted = true; })))`)
	b.wait(`painted`)
}

// media is what the browser says of its surroundings.
func (b *bench) media(name, value string) {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: name, Value: value}}})
		return err
	}))
}

// Whoever scrolls up comes by every turn, to the first one, without a jump, and
// nothing of that is called new.
func TestPageScrollsUp(t *testing.T) {
	needBrowser(t)
	server := spawn(t, t.TempDir())
	for _, n := range []int{90, 250} {
		session := server.talk(turns(n)...)
		b := &bench{t: t, addr: server.addr}
		b.browse()
		b.open("#/s/" + session)
		b.wait(fmt.Sprintf(`[...document.querySelectorAll('#log .text')].at(-1)?.textContent.endsWith('answer %d')`, n))
		// Judged by each frame: which answers are on the screen, how far rows that were
		// there before have moved beyond what was scrolled, what the pill says.
		b.run(`(window.saw = new Set(), window.jumps = [], window.pills = new Set(), window.was = new Map(), window.turned = 0)`)
		b.run(`(window.look = () => {
			const box = document.querySelector('#scroller').getBoundingClientRect(), now = new Map();
			for (const e of document.querySelectorAll('#log .row')) {
				const r = e.getBoundingClientRect();
				if (r.bottom < box.top || r.top > box.bottom) continue;
				const text = e.className.replace(/ .*/, '') + (e.querySelector('.text')?.textContent || '') + e.classList.contains('mine');
				now.set(text, r.top);
				if (e.classList.contains('assistant')) saw.add(Number(e.querySelector('.text').textContent.match(/\d+$/)[0]));
			}
			const moved = [...now].filter(([k]) => was.has(k)).map(([k, y]) => y - was.get(k));
			if (was.size && now.size && !moved.length) jumps.push('nothing of what was there is there');
			for (const m of moved) if (m < -1 || m > turned + 40) jumps.push(Math.round(m) + ' px');
			if (!document.querySelector('#jump').hidden) pills.add(document.querySelector('#jump-text').textContent);
			was = now;
			requestAnimationFrame(look);
		}, window.addEventListener('wheel', e => { turned = Math.abs(e.deltaY); }, {passive: true}), look())`)
		for i := 0; i < 40*n && !eval[bool](b, `document.querySelector('#scroller').scrollTop === 0 && document.querySelector('#older').hidden`); i++ {
			b.wheel(-240)
		}
		b.frame()
		if text := eval[string](b, `document.querySelector('#log .row').innerText`); !strings.Contains(text, "/say answer 1") {
			t.Errorf("%d turns: at the top is %q", n, text)
		}
		if seen := eval[int](b, `saw.size`); seen != n {
			t.Errorf("%d turns: %d answers were on the screen", n, seen)
		}
		if jumps := eval[[]string](b, `jumps`); len(jumps) > 0 {
			t.Errorf("%d turns: the rows jumped %d times: %v", n, len(jumps), jumps[:min(len(jumps), 10)])
		}
		if pills := eval[[]string](b, `[...pills]`); len(pills) != 1 || pills[0] != "Latest" {
			t.Errorf("%d turns: the pill said %q", n, pills)
		}
		// What really comes is counted, and moves nothing.
		before := eval[float64](b, `document.querySelectorAll('#log .row')[3].getBoundingClientRect().top`)
		server.do("POST", "/api/sessions/"+session+"/messages?wait=60s", `{"client_msg_id":"new","text":"/say one more"}`)
		b.wait(`document.querySelector('#jump-text').textContent === '1 new'`)
		if after := eval[float64](b, `document.querySelectorAll('#log .row')[3].getBoundingClientRect().top`); after != before {
			t.Errorf("a new answer moved the reader from %v to %v", before, after)
		}
		b.quiet()
	}
}

// A long conversation, scrolled from its end to its beginning and back, and streamed
// into. It judges that all of it is there and prints what that costs; as large as
// PAGE_ROWS says:
//
//	PAGE_ROWS=10000 go test -tags e2e -v -timeout 9m -run '^TestPageLongConversation$' ./cmd/parley
func TestPageLongConversation(t *testing.T) {
	needBrowser(t)
	rows := 400
	if n, err := strconv.Atoi(os.Getenv("PAGE_ROWS")); err == nil {
		rows = n
	}
	server := spawn(t, t.TempDir(), "--set", "scripted.token_delay=5ms", "--set", "log.level=warn")
	session := server.talk(turns(rows / 2)...)
	b := &bench{t: t, addr: server.addr}
	b.browse(chromedp.Flag("enable-precise-memory-info", true))
	b.open("#/s/" + session)
	b.wait(fmt.Sprintf(`[...document.querySelectorAll('#log .text')].at(-1)?.textContent.endsWith('answer %d')`, rows/2))
	b.run(`(window.gaps = [], window.last = 0, window.tick = (t) => { if (last) gaps.push(t - last); last = t; window.each?.(); requestAnimationFrame(tick); }, requestAnimationFrame(tick))`)
	part := func(what, each, done string) {
		t.Helper()
		b.run(`(gaps.length = 0, window.each = () => {` + each + `})`)
		b.wait(done)
		b.run(`(window.each = null)`)
		t.Logf("%-24s %s", what, eval[string](b, `(() => {
			const late = gaps.filter(g => g > 34).length, s = [...gaps].sort((a, b) => a - b);
			return gaps.length + ' frames, ' + late + ' later than 34 ms (' + (100 * late / gaps.length).toFixed(1) + ' %), median ' + s[s.length >> 1].toFixed(0) + ' ms, longest ' + s.at(-1).toFixed(0) + ' ms; '
				+ document.querySelectorAll('#log .row').length + ' rows, ' + document.querySelectorAll('*').length + ' elements, ' + (performance.memory.usedJSHeapSize / 1e6).toFixed(0) + ' MB';
		})()`))
	}
	part("nothing moves", ``, `gaps.length > 60`) // what this machine gives to anybody now
	// Which messages, and how many rows at once, have been there: looked at in each fourth frame.
	b.run(`(window.came = new Set(), window.most = 0, window.frames = 0, window.look = () => {
		if (frames++ % 4) return;
		most = Math.max(most, document.querySelectorAll('#log .row').length);
		for (const e of document.querySelectorAll('#log .row.mine')) came.add(e.dataset.message);
	})`)
	whole := func(way string) {
		t.Helper()
		if n := eval[int](b, `came.size`); n != rows/2 {
			t.Errorf("%s: %d messages came by, want %d", way, n, rows/2)
		}
		if n := eval[int](b, `most`); n > 300 {
			t.Errorf("%s: %d rows were elements at once", way, n)
		}
		b.run(`(came.clear())`)
	}
	part("up, 500 px a frame", `document.querySelector('#scroller').scrollTop -= 500; look()`, `document.querySelector('#scroller').scrollTop === 0 && document.querySelector('#older').hidden`)
	b.run(`(frames = 0, look())`)
	whole("up")
	if text := eval[string](b, `document.querySelector('#log .row').innerText`); !strings.Contains(text, "/say answer 1") {
		t.Errorf("at the top is %q", text)
	}
	// Nothing is among the rows but what was said: a row for each message and each answer.
	b.run(thePage + `.then(p => { const v = p.state.view, n = {}; for (const k of v.order) { const { type } = v.rows.get(k); n[type] = (n[type] || 0) + 1; } window.kinds = JSON.stringify(n); })`)
	b.wait(`!!window.kinds`)
	t.Logf("rows by type: %s", eval[string](b, `kinds`))
	const atEnd = `(s => s.scrollHeight - s.scrollTop - s.clientHeight < 2)(document.querySelector('#scroller'))`
	part("down, 500 px a frame", `document.querySelector('#scroller').scrollTop += 500; look()`, atEnd+` && document.querySelector('#jump').hidden`)
	b.run(`(frames = 0, look())`)
	whole("down")
	b.say("/stream 300 word")
	part("an answer is written", ``, `!!document.querySelector('.draft') && document.querySelector('.draft').textContent.length > 900`)
	b.wait(idle)
	if !eval[bool](b, atEnd) {
		t.Error("the end was lost while an answer was written")
	}
	b.quiet()
}

// Whoever wants to see what stands above while an answer is written gets there, however
// gently: by touchpad, wheel, finger or key; and stays there until they come back.
func TestPageLeavesEnd(t *testing.T) {
	needBrowser(t)
	server := spawn(t, t.TempDir(), "--set", "scripted.token_delay=5ms")
	b := &bench{t: t, addr: server.addr}
	b.browse()
	b.size(1000, 420)
	const left = `(s => s.scrollHeight - s.scrollTop - s.clientHeight)(document.querySelector('#scroller'))`
	written := func() {
		t.Helper()
		now := eval[int](b, `document.querySelector('.draft .text').textContent.length`)
		b.wait(fmt.Sprintf(`document.querySelector('.draft .text').textContent.length > %d`, now+100))
	}
	touch := func(kind input.DispatchTouchEventType, at ...*input.TouchPoint) {
		t.Helper()
		b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			_, err := cdp.Call(ctx, t, input.DispatchTouchEvent, input.DispatchTouchEventParams{Type: kind, TouchPoints: append([]*input.TouchPoint{}, at...)})
			return err
		}))
	}
	for name, up := range map[string]func(){
		"a touchpad": func() {
			for range 12 {
				b.wheel(-4)
			}
		},
		"a wheel that turns slowly": func() {
			for range 12 {
				b.wheel(-12)
			}
		},
		"a finger": func() {
			b.do(chromedp.EmulateViewport(1000, 420, chromedp.EmulateTouch))
			touch("touchStart", &input.TouchPoint{X: 600, Y: 100})
			for y := 110.0; y <= 280; y += 10 {
				touch("touchMove", &input.TouchPoint{X: 600, Y: y})
				b.frame()
			}
			touch("touchEnd")
		},
		"a key":       func() { b.do(chromedp.MouseClickXY(600, 200)); b.key(kb.PageUp) },
		"a scrollbar": func() { b.run(`document.querySelector('#scroller').scrollTop -= 200`) },
	} {
		t.Run(name, func(t *testing.T) {
			b := b.in(t)
			b.open("")
			b.fresh()
			b.paste("/stream 4000 word")
			b.wait(`document.querySelector('.draft .text')?.textContent.length > 2500`)
			b.wait(left + ` < 2 && document.querySelector('#jump').hidden`)
			up()
			b.wait(left + ` > 40 && !document.querySelector('#jump').hidden`)
			at := eval[float64](b, `document.querySelector('#scroller').scrollTop`)
			written()
			if now := eval[float64](b, `document.querySelector('#scroller').scrollTop`); now != at && name != "a key" { // of which the browser makes a glide
				t.Errorf("the reader was moved from %v to %v", at, now)
			}
			if eval[bool](b, left+` < 40`) {
				t.Error("the reader was taken back to the end")
			}
			b.do(chromedp.MouseEvent(chromedp.MouseWheel, 600, 200, func(p *input.DispatchMouseEventParams) { p.DeltaX, p.DeltaY = 1e-6, 2000 }))
			b.wait(left + ` < 2 && document.querySelector('#jump').hidden`)
			written()
			b.wait(left + ` < 2 && document.querySelector('#jump').hidden`)
			b.do(chromedp.Focus("#message"))
			b.key(kb.Escape)
			b.wait(idle)
		})
	}

	// Nor is the end lost because what a finger has touched is not there any more.
	b.open("")
	b.fresh()
	b.paste("/stream 4000 word")
	b.wait(`!!document.querySelector('.draft .text')`)
	b.run(`(e => {
		document.querySelector('#scroller .column').append(e);
		e.dispatchEvent(new TouchEvent('touchstart', {bubbles: true, touches: [new Touch({identifier: 1, target: e})]}));
		e.remove();
		e.dispatchEvent(new TouchEvent('touchend', {bubbles: true}));
	})(document.createElement('p'))`)
	b.wait(`document.querySelector('.draft .text').textContent.length > 2500`)
	b.wait(left + ` < 2`)
	b.do(chromedp.Focus("#message"))
	b.key(kb.Escape)
	b.wait(idle)

	// The page of a new conversation has no end that could be left.
	b.do(chromedp.EmulateViewport(360, 420))
	b.fresh()
	b.run(`document.querySelector('#scroller').scrollTop = 1e6`)
	b.frame()
	b.run(`document.querySelector('#scroller').scrollTop -= 30`)
	b.frame()
	if !eval[bool](b, `document.querySelector('#jump').hidden`) {
		t.Error("the empty page offers its end")
	}
	b.size(1000, 420)

	// Where nothing stands above, nobody can leave.
	b.fresh()
	b.paste("/stream 1500 word")
	b.wait(`!!document.querySelector('.draft .text')`)
	b.wheel(-100)
	b.wait(`document.querySelector('.draft .text').textContent.length > 2000`)
	b.wait(left + ` < 2 && document.querySelector('#jump').hidden`)
	b.quiet()
}

// An answer grows where it is written: one element from its first word on, never
// paler than it was, and what is marked in it stays marked.
func TestPageAnswersGrow(t *testing.T) {
	needBrowser(t)
	server := spawn(t, t.TempDir(), "--set", "scripted.token_delay=10ms")
	b := &bench{t: t, addr: server.addr}
	b.browse()
	b.open("")
	b.run(`(window.frames = [], window.labels = new Set(), window.sample = () => {
		labels.add(document.querySelector('#working').hidden ? '' : document.querySelector('#working-text').textContent);
		const e = document.querySelector('.row.draft') || [...document.querySelectorAll('#log .assistant')].at(-1);
		if (e) {
			if (!window.grown) window.grown = e;
			frames.push({same: e === grown, draft: e.classList.contains('draft'), opacity: Number(getComputedStyle(e).opacity), marked: String(getSelection()).length, text: e.querySelector('.text').textContent.length});
		}
		requestAnimationFrame(sample);
	}, sample())`)
	b.say("/stream 400 word")
	b.wait(`document.querySelector('.draft .text')?.textContent.length > 100`)
	b.run(`(() => { const t = document.createTreeWalker(document.querySelector('.draft .text'), NodeFilter.SHOW_TEXT).nextNode(); getSelection().setBaseAndExtent(t, 5, t, 60); frames.length = 0; })()`)
	b.wait(finals + ` === 1 && ` + idle)
	b.frame()
	type frame struct {
		Same, Draft bool
		Opacity     float64
		Marked      int
		Text        int
	}
	drafts := 0
	frames := eval[[]frame](b, `frames`)
	for i, f := range frames {
		if f.Draft {
			drafts++
		}
		if !f.Same || f.Opacity < 1 || f.Marked != 55 {
			t.Errorf("frame %d of %d: %+v", i, len(frames), f)
			break
		}
	}
	if drafts == 0 || drafts == len(frames) { // a busy machine shows few of them
		t.Errorf("%d of %d frames show the draft", drafts, len(frames))
	}
	labels := eval[[]string](b, `[...labels]`)
	if !slices.Contains(labels, "Writing") {
		t.Errorf("the indicator said %q", labels)
	}
	b.quiet()
}

// Erased is gone wherever it is shown or kept, and who was writing in it keeps the words.
func TestPageErased(t *testing.T) {
	needBrowser(t)
	server := spawn(t, t.TempDir(), "--set", "scripted.token_delay=50ms")
	kept := server.talk("/say the other one")
	b := &bench{t: t, addr: server.addr}
	b.browse()
	other := b.second()
	b.open("")
	b.say("/say the secret")
	b.wait(finals + ` === 1 && ` + idle)
	b.say("/stream 200 word")
	b.wait(`!!document.querySelector('.draft')`)
	b.say("/say waits")
	b.wait(trayItems + ` === 1`)
	session := eval[string](b, `location.hash.slice(4)`)
	other.open("#/s/" + session)
	other.wait(`!!document.querySelector('.draft') && ` + trayItems + ` === 1`)
	other.put("I was just writing this")
	if status, body := server.do("DELETE", "/api/sessions/"+session, ""); status/100 != 2 {
		t.Fatalf("%d %s", status, body)
	}
	for _, tab := range []*bench{b, other} {
		tab.wait(`document.querySelector('#empty').textContent.includes('was erased')`)
		if rest := eval[string](tab, `document.querySelector('#log').textContent + document.querySelector('#tray').textContent + document.querySelector('#activity').textContent + (document.querySelector('#working').hidden ? '' : 'working')`); rest != "" {
			t.Errorf("an erased conversation still shows %q", rest)
		}
		if title := eval[string](tab, `document.querySelector('#title').textContent`); strings.Contains(title, "secret") {
			t.Errorf("its title is still there: %q", title)
		}
		if stored := eval[string](tab, `JSON.stringify({...sessionStorage})`); strings.Contains(stored, session) {
			t.Errorf("the tab keeps %s", stored)
		}
	}
	other.run(`document.querySelector('#empty a').click()`)
	other.wait(`document.querySelector('#message').value === 'I was just writing this' && !document.querySelector('.composer').hidden`)

	// One that was opened lately and is erased while another one is open.
	session = server.talk("/say the second secret")
	b.run(`location.hash = '#/s/` + session + `'`)
	b.wait(lastText + ` === 'the second secret'`)
	b.put("and this was not sent")
	b.run(`location.hash = '#/s/` + kept + `'`)
	b.wait(lastText + ` === 'the other one'`)
	if status, body := server.do("DELETE", "/api/sessions/"+session, ""); status/100 != 2 {
		t.Fatalf("%d %s", status, body)
	}
	// The list says so: nothing of it stays, and what was written there is not lost.
	b.wait(`[...document.querySelectorAll('.toast')].some(e => e.textContent.includes('What you were writing there waits in a new conversation'))`)
	b.run(thePage + `.then(p => { window.views = [...p.state.views.keys()]; })`)
	b.wait(`window.views && !views.includes('` + session + `')`)
	if stored := eval[string](b, `JSON.stringify({...sessionStorage})`); strings.Contains(stored, session) {
		t.Errorf("the tab keeps %s", stored)
	}
	b.run(`document.querySelector('#new').click()`)
	b.wait(`document.querySelector('#message').value === 'and this was not sent'`)
	b.run(`location.hash = '#/s/` + session + `'`)
	b.wait(`document.querySelector('#empty').textContent.includes('was erased') && document.querySelectorAll('#log .row').length === 0`)

	// Nothing of it stays in what was found before, above the list or in the palette.
	const palette = `[...document.querySelectorAll('.palette .option')].map(e => e.textContent).join('|')`
	for _, where := range []string{"the list", "the palette"} {
		session = server.talk("/say the third secret")
		if where == "the list" {
			b.run(`(s => { s.value = 'third'; s.dispatchEvent(new Event('input')); })(document.querySelector('#search'))`)
			b.wait(`document.querySelectorAll('#found-list a').length >= 2`)
		} else {
			b.key("k", kb.ModifierCtrl)
			b.wait(`document.activeElement.matches('.palette-input')`)
			b.key("third")
			b.wait(palette + `.includes('third secret')`)
		}
		if status, body := server.do("DELETE", "/api/sessions/"+session, ""); status/100 != 2 {
			t.Fatalf("%d %s", status, body)
		}
		b.wait(`document.querySelectorAll('#found-list a').length === 0 && !` + palette + `.includes('third secret')`)
		if text := eval[string](b, `document.body.innerText`); strings.Contains(text, "third secret") {
			t.Errorf("found in %s, an erased conversation still shows", where)
		}
	}
	b.quiet()
}

// What is approved is seen whole, and what cannot be seen is written out.
func TestPageApprovalsWhole(t *testing.T) {
	b := newBench(t, askingTools(t))
	b.open("")
	lines := make([]string, 200)
	for i := range lines {
		lines[i] = fmt.Sprintf("line %d", i+1)
	}
	for name, value := range map[string]string{
		"400 characters without a space": strings.Repeat("x", 399) + "!",
		"200 lines":                      strings.Join(lines, "\n"),
		"hidden characters":              "safe\u202etxt.exe\u200b",
	} {
		args, err := json.Marshal(map[string]any{"name": value})
		if err != nil {
			t.Fatal(err)
		}
		for _, width := range []int64{1200, 390} {
			b.size(width, 800)
			b.fresh()
			b.paste("/tool hi_greet " + string(args) + "\n/say $result")
			b.wait(`!!` + openCard)
			text := eval[string](b, openCard+`.querySelector('pre').textContent`)
			var shown struct{ Name string }
			if err := json.Unmarshal([]byte(text), &shown); err != nil || shown.Name != value {
				t.Errorf("%s: the card shows %.100q (%v)", name, text, err)
			}
			if strings.ContainsAny(text, "\u202e\u200b") {
				t.Errorf("%s: the card holds characters that nobody sees", name)
			}
			if hidden := eval[[]string](b, `(() => {
				const out = [], pre = `+openCard+`.querySelector('pre');
				for (let e = pre; e.id !== 'log'; e = e.parentElement) if (e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 1 && getComputedStyle(e).overflowY !== 'visible') out.push(e.className || e.tagName);
				const range = document.createRange(); range.selectNodeContents(pre);
				const box = pre.getBoundingClientRect();
				for (const r of range.getClientRects()) if (r.right > box.right + 1 || r.bottom > box.bottom + 1) { out.push('text beyond its box'); break; }
				return out;
			})()`); len(hidden) > 0 {
				t.Errorf("%s, %d px: cut by %q", name, width, hidden)
			}
			b.press("Decline")
			b.wait(finals + ` === 1 && ` + idle)
		}
	}
	b.quiet()
}

// A text that is very long does not bury the others; one that was not sent is there
// after a reload; one that is answered elsewhere is not lost.
func TestPageKeepsTexts(t *testing.T) {
	needBrowser(t)
	server := spawn(t, t.TempDir())
	b := &bench{t: t, addr: server.addr}
	b.browse()
	b.open("")
	long := strings.TrimSpace(strings.Repeat("All work and no play makes Jack a dull boy.\n", 2300))
	b.paste("/say ok\n\n" + long)
	b.wait(finals + ` === 1 && ` + idle)
	height := `document.querySelector('.row.mine').offsetHeight`
	if h := eval[int](b, height); h > 6000 {
		t.Errorf("100 KB are %d px high", h)
	}
	b.run(`document.querySelector('.row.mine .more-text').click()`)
	if text := eval[string](b, `document.querySelector('.row.mine .text').textContent`); strings.Count(text, "dull boy") != 2300 {
		t.Errorf("Show more shows %d of 2300 lines", strings.Count(text, "dull boy"))
	}
	if label := eval[string](b, `(e => e.textContent + ' ' + e.getAttribute('aria-expanded'))(document.querySelector('.row.mine .more-text'))`); label != "Show less true" {
		t.Errorf("the button says %q", label)
	}
	b.run(`document.querySelector('.row.mine .more-text').click()`)
	if h := eval[int](b, height); h > 6000 {
		t.Errorf("Show less leaves %d px", h)
	}

	b.put("half a thought")
	b.do(chromedp.Reload())
	b.wait(finals + ` === 1 && document.querySelector('#message').value === 'half a thought'`)
	b.fresh()
	b.put("another one")
	b.do(chromedp.Reload())
	b.wait(`document.querySelector('#message').value === 'another one'`)
	b.key(kb.Enter)
	b.wait(mine("another one", "answered"))
	b.do(chromedp.Reload())
	b.wait(mine("another one", "answered") + ` && document.querySelector('#message').value === ''`)

	b.put("")
	b.fresh()
	b.say("/ask Where to?\n/say Going to $reply")
	b.wait(`!!` + openCard)
	session := eval[string](b, `location.hash.slice(4)`)
	b.run(openCard + `.querySelector('textarea').focus()`)
	b.key("to the far north")
	question := eval[string](b, openCard+`.dataset.question`)
	other := b.second()
	other.open("#/s/" + session)
	other.wait(`!!` + openCard)
	other.run(`document.querySelector('.question textarea').focus()`)
	other.key("south")
	other.key(kb.Enter)
	b.wait(outcome + ` === 'Answeredsouth'`)
	if v := eval[string](b, `document.querySelector('#message').value`); v != "to the far north" {
		t.Errorf("question %s: the message box holds %q, what was written on the card is lost", question, v)
	}
	if !eval[bool](b, `!!document.activeElement.closest('.question')`) {
		t.Error("the focus left the card")
	}
	if v := eval[string](other, `document.querySelector('#message').value`); v != "" {
		t.Errorf("who answered finds %q in the message box", v)
	}
	b.quiet()
}

// Large letters, few colours, thick fingers.
func TestPageForEveryone(t *testing.T) {
	needBrowser(t)
	server := spawn(t, t.TempDir())
	b := &bench{t: t, addr: server.addr}
	b.browse()
	b.size(640, 400) // 1280 × 800 at 200 %
	b.open("")
	b.wait(`!!document.querySelector('.examples')`)
	b.frame()
	if top := eval[[]float64](b, `[document.querySelector('#scroller').scrollTop, document.querySelector('#empty h2').getBoundingClientRect().top - document.querySelector('#scroller').getBoundingClientRect().top]`); top[0] != 0 || top[1] < 0 {
		t.Errorf("the empty page is scrolled to %v, its heading stands at %v", top[0], top[1])
	}
	b.size(1200, 800)
	b.say("/ask Which one? [A/B]")
	b.wait(`!!` + openCard + ` && !!document.querySelector('#sessions [aria-current]')`)
	b.media("forced-colors", "active")
	if w := eval[string](b, `(s => s.outlineStyle + ' ' + s.outlineWidth)(getComputedStyle(document.querySelector('#sessions [aria-current]')))`); w != "solid 2px" {
		t.Errorf("in forced colours the current conversation is marked by %q", w)
	}
	b.media("forced-colors", "none")
	b.do(chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile, chromedp.EmulateTouch))
	b.do(chromedp.Reload())
	b.wait(`!!` + openCard + ` && matchMedia('(pointer: coarse)').matches`)
	for _, where := range []string{"", "menu"} {
		if where == "menu" {
			b.run(`document.querySelector('.menu-button').click()`)
			b.wait(`document.querySelector('#sidebar').classList.contains('open')`)
		}
		if small := eval[[]string](b, `[...document.querySelectorAll('button, a[href], select, textarea, input, summary')].filter(e => e.checkVisibility({visibilityProperty: true}) && !e.closest('.skip, .text p, .text li')).map(e => [e.closest('label.mode') || e, e.getBoundingClientRect()]).filter(([, r]) => r.width && (r.height < 43.5 || r.width < 43.5)).map(([e, r]) => (e.id || e.className || e.tagName) + ' ' + Math.round(r.width) + '×' + Math.round(r.height))`); len(small) > 0 {
			t.Errorf("too small for a finger %s: %q", where, small)
		}
	}
	b.quiet()
}
