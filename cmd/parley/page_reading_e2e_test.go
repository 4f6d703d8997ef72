//go:build e2e

package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// faint lists what is on the screen with a contrast below WCAG's 4.5 : 1, all
// opacities and grounds counted. What is disabled need not be read.
const faint = `(() => {
	const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
	const rgba = (css) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = css; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
	const over = ([r, g, b, a], [R, G, B]) => [r, g, b].map((c, i) => c * a / 255 + [R, G, B][i] * (1 - a / 255));
	const light = (c) => { const [r, g, b] = c.map(x => x / 255 <= .04045 ? x / 255 / 12.92 : ((x / 255 + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
	const ground = (e) => {
		if (!e) return [255, 255, 255];
		const bg = rgba(getComputedStyle(e).backgroundColor);
		return bg[3] === 255 ? bg.slice(0, 3) : over(bg, ground(e.parentElement));
	};
	const out = [];
	const judge = (e, color, text) => {
		let alpha = 1;
		for (let x = e; x; x = x.parentElement) alpha *= Number(getComputedStyle(x).opacity);
		const bg = ground(e), c = rgba(color);
		const [a, b] = [light(over([c[0], c[1], c[2], c[3] * alpha], bg)), light(bg)];
		const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
		if (ratio < 4.5) out.push(ratio.toFixed(2) + ' ' + (e.className || e.id || e.tagName) + ': ' + text.trim().slice(0, 30));
	};
	const all = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (all.nextNode()) {
		const e = all.currentNode.parentElement;
		if (!all.currentNode.data.trim() || !e.checkVisibility({visibilityProperty: true}) || e.closest(':disabled, [aria-disabled=true], .visually-hidden, .skip, script')) continue;
		judge(e, getComputedStyle(e).color, all.currentNode.data);
	}
	for (const e of document.querySelectorAll('input, textarea')) if (e.checkVisibility()) judge(e, getComputedStyle(e, '::placeholder').color, e.placeholder || '?');
	return [...new Set(out)];
})()`

// nameless lists what can be used and has no name for those who do not see it,
// and ids that are there twice.
const nameless = `(() => {
	const out = [];
	for (const e of document.querySelectorAll('button, a[href], input, textarea, select, summary, [role=group], [role=log], dialog')) {
		if (!e.checkVisibility({visibilityProperty: true})) continue;
		const name = e.getAttribute('aria-label') || document.getElementById(e.getAttribute('aria-labelledby'))?.textContent || [...(e.labels || [])].map(l => l.textContent).join('') || (e.matches('button, a, summary') ? e.textContent : '') || e.title;
		if (!name.trim()) out.push(e.outerHTML.slice(0, 100));
	}
	const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
	return [...out, ...ids.filter((id, i) => ids.indexOf(id) !== i)];
})()`

// cut lists what stands out of the screen sideways and cannot be scrolled to.
const cut = `(() => {
	const out = [];
	if (document.documentElement.scrollWidth > innerWidth) out.push('the page is ' + document.documentElement.scrollWidth + ' px wide');
	for (const e of document.querySelectorAll('#scroller, .scroller, .column, .log')) if (e.checkVisibility() && e.scrollWidth > e.clientWidth + 1) out.push(e.className + ' scrolls sideways');
	for (const e of document.querySelectorAll('main *, .toast, dialog[open]')) {
		if (!e.checkVisibility({visibilityProperty: true}) || e.closest('pre, .table, svg, .visually-hidden') && !e.matches('pre, .table')) continue;
		const r = e.getBoundingClientRect();
		if (r.width && (r.right > innerWidth + 1 || r.left < -1)) out.push(e.tagName + '.' + (e.className || e.id) + ' ' + Math.round(r.left) + '…' + Math.round(r.right));
	}
	return [...new Set(out)];
})()`

func (b *bench) none(what, js string) {
	b.t.Helper()
	b.run(`document.getAnimations().filter(a => a.effect.getTiming().iterations !== Infinity).forEach(a => a.finish())`)
	if list := eval[[]string](b, js); len(list) > 0 {
		b.t.Errorf("%s:\n  %s", what, strings.Join(list, "\n  "))
	}
}

const (
	longWord = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft"
	arabic   = "مرحبا بالعالم"
	emoji    = "👩‍👩‍👧‍👦🏳️‍🌈"
	code     = "```go\nfunc main() { fmt.Println(\"a line that is much longer than any phone is wide, and then some more of it\") }\n```"
)

// What is written can be read: by everyone, on every screen, as it was written.
func TestPageReading(t *testing.T) {
	// Chromium is told that the system is dark.
	b := newBench(t, askingTools(t), chromedp.Flag("blink-settings", "preferredColorScheme=0"))
	b.open("")

	t.Run("no text becomes markup", func(t *testing.T) {
		b := b.in(t)
		b.fresh()
		const probe = `<img src=x onerror="window.pwned=1"><script>window.pwned=2</script>`
		b.run(`(window.shows = (s) => [...document.querySelectorAll(s)].some(e => (e.value || e.textContent).includes('<img src=x')))`)
		b.say(`/tool askUser {"question":"` + strings.ReplaceAll(probe, `"`, `\"`) + `","blocking":true,"choices":["` + strings.ReplaceAll(probe, `"`, `\"`) + `","b"],"default":"` + strings.ReplaceAll(probe, `"`, `\"`) + `","expiresIn":"2h"}` + "\n" +
			`/tool hi_greet {"name":"` + strings.ReplaceAll(probe, `"`, `\"`) + `"}` + "\n/say **$result** [x](javascript:window.pwned=3)")
		b.wait(`!!` + openCard)
		for _, where := range []string{".row.mine .text", ".question .text", ".choice", ".question .hint", "#title", ".session-title"} {
			b.wait(fmt.Sprintf(`shows(%q)`, where))
		}
		b.run(openCard + `.querySelector('.choice').click()`)
		b.wait(lastCard + `.classList.contains('approval') && !!` + openCard)
		b.wait(`shows('.question:not(.approval) .outcome') && shows('.approval pre')`)
		b.press("Edit arguments")
		b.wait(`document.activeElement.getAttribute('aria-label') === 'Arguments' && document.activeElement.value.includes('onerror')`)
		b.press("Approve")
		b.wait(finals + ` === 1 && ` + idle)
		b.wait(`shows('.assistant .text') && shows('.activity .line-text')`)
		session := eval[string](b, `location.hash.slice(4)`)
		request, err := http.NewRequest(http.MethodPatch, "http://"+b.addr+"/api/sessions/"+session, strings.NewReader(`{"title":"renamed `+strings.ReplaceAll(probe, `"`, `\"`)+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		b.wait(`document.querySelector('#title').textContent.startsWith('renamed <img') && document.querySelector('.session-title').textContent.startsWith('renamed <img') && document.title.startsWith('renamed <img')`)
		b.run(`location.hash = '#/tasks'`)
		b.wait(`shows('.task-prompt')`)
		b.run(`document.querySelector('.task-list a').click()`)
		b.wait(`shows('.task-detail .text')`)
		b.run(`history.go(-2)`)
		b.wait(finals + ` === 1`)
		if !eval[bool](b, `window.pwned === undefined && document.querySelectorAll('#app img, #app script, dialog img').length === document.querySelectorAll('.brand img').length && !document.querySelector('a[href^="javascript"]')`) {
			t.Error("a text became markup")
		}
	})

	t.Run("long, wide, right to left, emoji", func(t *testing.T) {
		b := b.in(t)
		b.fresh()
		b.say("/ask " + longWord + "? [" + longWord + "/" + arabic + "]")
		b.wait(`!!` + openCard)
		b.size(390, 844)
		b.none("cut on a phone", cut)
		b.picture("phone-card")
		b.size(1200, 800)
		b.run(`[...document.querySelectorAll('.choice')].at(-1).click()`)
		b.wait(finals + ` === 1 && ` + idle)
		lines := "/parts " + arabic + " | # " + emoji + " | " + strings.Repeat(longWord, 3) + " | https://example.org/" + strings.Repeat("a", 300) + " | `" + longWord + longWord + "`"
		b.paste(lines)
		b.wait(finals + ` === 2 && ` + idle)
		b.paste(code + "\n" + arabic + "\n\n> " + longWord + "\n\n1. one\n2. two")
		b.wait(finals + ` === 3 && ` + idle)
		if !eval[bool](b, fmt.Sprintf(`(e => getComputedStyle(e).direction === 'rtl')([...document.querySelectorAll('.assistant .text p')].find(e => e.textContent === %q))`, arabic)) {
			t.Error("an Arabic text is not written from right to left")
		}
		if !eval[bool](b, `(e => e.scrollWidth > e.clientWidth && getComputedStyle(e).overflowX === 'auto' && e.tabIndex === 0)(document.querySelector('.row.mine pre'))`) {
			t.Error("a long line of code cannot be scrolled")
		}
		b.put(arabic)
		if dir := eval[string](b, `getComputedStyle(document.querySelector('#message')).direction`); dir != "rtl" {
			t.Errorf("an Arabic text is typed %s", dir)
		}
		b.put("")
		b.picture("long")
		b.size(390, 844)
		b.none("cut on a phone", cut)
		b.picture("phone-long")
		b.size(1200, 800)
	})

	t.Run("every text can be read, dark and light, on every view", func(t *testing.T) {
		b := b.in(t)
		if !eval[bool](b, `matchMedia('(prefers-color-scheme: dark)').matches && !document.documentElement.dataset.theme`) {
			t.Fatal("the browser is not dark")
		}
		const ground = `getComputedStyle(document.body).backgroundColor`
		if c := eval[string](b, ground); c != "rgb(23, 25, 27)" {
			t.Errorf("the page is %s in a dark system", c)
		}
		both := func(view string) {
			t.Helper()
			for _, theme := range []string{"dark", "light"} {
				if theme == "light" {
					b.run(`document.documentElement.dataset.theme = 'light'`)
				}
				b.none(view+", "+theme+": too faint", faint)
				b.picture(view + "-" + theme)
				b.size(390, 844)
				b.none(view+", "+theme+": cut on a phone", cut)
				b.none(view+", "+theme+": too faint on a phone", faint)
				b.picture(view + "-" + theme + "-phone")
				b.size(1200, 800)
				b.run(`delete document.documentElement.dataset.theme`)
			}
			b.none(view+": without a name", nameless)
		}
		b.fresh()
		both("empty")
		b.say("/partial See `code`, **bold** and @max: https://example.org\n/askopen Which one? [A/B]\n/wait 60s\n/say not reached")
		b.wait(`!!` + openCard + ` && ` + working)
		b.say("/say first")
		b.say("/say second")
		b.wait(trayItems + ` === 2`)
		b.run(`document.querySelectorAll('#tray li')[0].querySelector('[aria-label="Withdraw this message"]').click()`)
		b.wait(trayItems + ` === 1`)
		b.run(`document.querySelectorAll('#tray li')[0].querySelector('[aria-label="Edit this message"]').click()`)
		both("working")
		b.run(`[...document.querySelectorAll('#tray button')].find(e => e.textContent === 'Stop and drop all').click()`)
		b.run(`document.querySelector('dialog .danger').click()`)
		b.wait(idle)
		b.say("/fail 500 99\n/say never")
		b.wait(mine("never", "failed") + ` && ` + idle)
		b.say(greetMax)
		b.wait(`!!` + openCard)
		b.press("Edit arguments")
		b.wait(`document.activeElement.getAttribute('aria-label') === 'Arguments'`)
		b.fill("{")
		b.key(kb.Enter, kb.ModifierCtrl)
		b.wait(`!` + openCard + `.querySelector('.form-error').hidden`)
		both("approval")
		b.run(`location.hash = '#/tasks'`)
		b.wait(`document.querySelectorAll('.task-list li').length > 3`)
		both("tasks")
		b.run(`document.querySelector('.task-list a[data-task]').click()`)
		b.wait(`!!document.querySelector('#task-reply') && !document.querySelector('#reply-box').hidden`)
		both("task")
		b.run(`history.go(-2)`)
		b.wait(`!!` + openCard)
		b.press("Decline")
		b.wait(outcome + ` === 'Declined' && ` + idle + ` && ` + lastText + `.startsWith('denied')`)
		b.run(`document.querySelector('[aria-label="Delete this conversation"]').click()`)
		b.wait(`!!document.querySelector('dialog[open]')`)
		both("dialog")
		b.key(kb.Escape)
		b.wait(`!document.querySelector('dialog')`)
	})

	t.Run("the keyboard is enough", func(t *testing.T) {
		b := b.in(t)
		b.fresh()
		b.say("Set up auth")
		b.wait(`document.querySelectorAll('.question[data-state=open] .choice').length === 2 && ` + idle)
		b.do(chromedp.Reload())
		b.wait(`document.querySelectorAll('.question[data-state=open] .choice').length === 2`)
		b.run(`document.querySelector('#skip').focus()`)
		// From the start of the page to the message box: the stops, each of them visible.
		stops := []string{"Skip to the message box"}
		for len(stops) < 80 && !slices.Contains(stops, "Message") {
			b.key(kb.Tab)
			stop := eval[string](b, `(e => {
				const s = getComputedStyle(e), box = e.closest('.composer') ? getComputedStyle(e.closest('.composer')) : s, r = e.getBoundingClientRect();
				const name = e.getAttribute('aria-label') || e.placeholder || e.textContent.trim();
				const seen = (s.outlineStyle !== 'none' || box.boxShadow !== 'none') && r.width > 0 && r.bottom > 0 && r.top < innerHeight;
				return name + (seen ? '' : ' (not seen)');
			})(document.activeElement)`)
			stops = append(stops, stop)
		}
		at := 0
		for _, want := range []string{"Skip to the message box", "New conversation", "Tasks", "Search", "Theme: as the system", "Rename", "Delete this conversation", "OAuth", "JWT", "Reply", "Message"} {
			i := slices.IndexFunc(stops[at:], func(s string) bool {
				return strings.HasPrefix(s, want) || want == "Reply" && strings.HasPrefix(s, "Answer:")
			})
			if i < 0 {
				t.Fatalf("Tab does not come by %q in its turn: %q", want, stops)
			}
			at += i
		}
		for _, s := range stops {
			if strings.HasSuffix(s, "(not seen)") {
				t.Errorf("the focus is not seen on %q", s)
			}
		}
		b.run(`document.querySelector('#skip').focus()`)
		b.key(kb.Enter)
		b.wait(`document.activeElement.id === 'message'`)
		for range 20 {
			if eval[bool](b, `document.activeElement.textContent === 'JWT'`) {
				break
			}
			b.key(kb.Tab, kb.ModifierShift)
		}
		b.key(" ")
		b.wait(outcome + ` === 'AnsweredJWT' && ` + finals + ` === 1 && ` + idle)
		if !eval[bool](b, `document.activeElement.classList.contains('outcome')`) {
			t.Error("the focus is lost after the answer")
		}
		for _, what := range []string{`#log[role=log][aria-live=polite]`, `#working[role=status]`, `#banner[role=status]`, `main h1`, `html[lang]`} {
			if !eval[bool](b, fmt.Sprintf(`document.querySelectorAll(%q).length === 1`, what)) {
				t.Errorf("there is no %s", what)
			}
		}
	})

	b.quiet()

	// The control: a violation of the policy is something that quiet would hear.
	b.run(`document.body.append(Object.assign(document.createElement('style'), {textContent: 'body { color: red }'}))`)
	b.heard("Content Security Policy")
	// Nor is there a way from a string to code or markup: the page makes no trusted types.
	for _, way := range []string{
		`document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.pwned = 4'}))`,
		`document.body.innerHTML = '<img src=x onerror="window.pwned = 4">'`,
		`trustedTypes.createPolicy('default', {createHTML: (s) => s})`,
	} {
		if !eval[bool](b, `(() => { try { `+way+`; return false } catch (e) { return e instanceof TypeError } })()`) {
			t.Errorf("the policy allows %s", way)
		}
	}
	if eval[bool](b, `window.pwned !== undefined`) {
		t.Error("the policy lets inline code run")
	}
}
