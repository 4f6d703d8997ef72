//go:build e2e

package main

import (
	"context"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// loading is what a visit cost: requests and bytes over the wire, how many of them had to
// wait for another one to be read, and when something was seen, in milliseconds.
type loading struct {
	Requests int      `json:"requests"`
	Bytes    int      `json:"bytes"`
	Late     []string `json:"late"`
	Paint    float64  `json:"paint"`
	Message  float64  `json:"message"`
}

// What is asked for before the first paint is named in the page itself; late is what a
// module asked for, and only the reading of Markdown and the colours may be that.
const measured = `(() => {
	const all = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')];
	const wire = all.filter(e => e.transferSize > 0);
	const named = new Set([...document.querySelectorAll('[src], [href]')].map(e => e.src || e.href));
	return {
		requests: wire.length, bytes: wire.reduce((n, e) => n + e.transferSize, 0),
		late: all.filter(e => e.name.includes('/assets/') && !named.has(e.name)).map(e => new URL(e.name).pathname.replace(/^\/assets\/[0-9a-f]+\//, '')),
		paint: performance.getEntriesByName('first-contentful-paint')[0]?.startTime || 0, message: window.messageAt || 0,
	};
})()`

// A visit is one round trip for the page and one for all that it names; who was there
// before asks for the page alone. Times are printed, not judged.
func TestPageLoad(t *testing.T) {
	b := newBench(t, "")
	b.open("")
	b.say("/say hello there")
	b.wait(finals + ` === 1 && ` + idle)
	session := eval[string](b, `location.hash`)
	// What is sent before the message is there, whoever sends it.
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: `(() => {
			const send = WebSocket.prototype.send;
			window.said = [];
			WebSocket.prototype.send = function (text) { if (!window.messageAt) said.push(JSON.parse(text).type); send.call(this, text); };
		})()`})
		return err
	}))
	visit := func(name string, slow, fresh bool, meanwhile ...func()) loading {
		t.Helper()
		link := &network.Conditions{DownloadThroughput: -1, UploadThroughput: -1}
		if slow {
			link = &network.Conditions{Latency: 800, DownloadThroughput: 20 << 10, UploadThroughput: 20 << 10}
		}
		b.do(chromedp.Navigate("about:blank"), chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			if _, err := cdp.Call(ctx, t, network.Enable, network.EnableParams{}); err != nil {
				return err
			}
			if fresh {
				if _, err := cdp.Call(ctx, t, network.ClearBrowserCache, cdp.Empty{}); err != nil {
					return err
				}
			}
			_, err := cdp.Call(ctx, t, network.EmulateNetworkConditionsByRule,
				network.EmulateNetworkConditionsByRuleParams{MatchedNetworkConditions: []*network.Conditions{link}})
			return err
		}))
		b.open(session)
		b.wait(`[...document.querySelectorAll('.assistant .text')].some(e => e.textContent.includes('hello there')) && (window.messageAt ||= performance.now()) > 0`)
		for _, f := range meanwhile {
			f()
		}
		b.wait(`performance.getEntriesByType('resource').some(e => e.name.endsWith('/later.js'))`)
		l := eval[loading](b, measured)
		t.Logf("%-24s %2d requests, %6d bytes, first paint %5.0f ms, first message %5.0f ms, late %v", name, l.Requests, l.Bytes, l.Paint, l.Message, l.Late)
		return l
	}
	cold := visit("first visit", false, true)
	warm := visit("again", false, false)
	visit("slow link, first visit", true, true, func() {
		if eval[bool](b, `performance.getEntriesByType('resource').some(e => e.name.endsWith('/later.js'))`) {
			t.Error("all of the page is there before its first message")
		}
		b.key("k", kb.ModifierCtrl) // and typed on, before there is anything to type in
		b.key("themx")
		b.key(kb.Backspace)
		b.key("e")
		b.wait(`document.querySelector('.palette-input')?.value === 'theme' && document.querySelectorAll('.palette [role=option]').length === 1`)
		if text := eval[string](b, `document.querySelector('#message').value`); text != "" {
			t.Errorf("what was typed for the palette is in the message box: %q", text)
		}
	})
	visit("slow link, again", true, false)
	if said := eval[[]string](b, `said`); !slices.Equal(said, []string{"hello", "follow", "watch"}) || !eval[bool](b, `globalThis.early === null`) {
		t.Errorf("the first commands were %v: each of them once, sent early and taken over", said)
	}
	late := map[string]bool{"grammar.js": true, "later.js": true}
	for _, name := range cold.Late {
		if !late[name] {
			t.Errorf("%s is asked for by a module: the page should name it", name)
		}
	}
	for _, limit := range []struct {
		what      string
		got, most int
	}{
		{"bytes of a first visit", cold.Bytes, 112 << 10}, {"requests of a first visit", cold.Requests, 10},
		{"bytes of another visit", warm.Bytes, 16 << 10}, {"requests of another visit", warm.Requests, 6},
	} {
		if limit.got > limit.most || limit.got == 0 {
			t.Errorf("%s: %d, at most %d", limit.what, limit.got, limit.most)
		}
	}
}
