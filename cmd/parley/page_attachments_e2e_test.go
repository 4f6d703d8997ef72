//go:build e2e

package main

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"parley/gateway/auth"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

const (
	chipCount  = `document.querySelectorAll('.files .chip').length`
	allStored  = `[...document.querySelectorAll('.files .chip')].every(e => e.dataset.state === 'stored')`
	drawnSmall = `document.querySelectorAll('#log .row.mine .picture img').length && [...document.querySelectorAll('#log .row.mine .picture img')].every(e => e.src.startsWith('data:image/') && e.naturalWidth > 0)`
)

// picked writes a file and gives its path.
func picked(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func stripes(t *testing.T) []byte {
	t.Helper()
	m := image.NewRGBA(image.Rect(0, 0, 800, 600))
	for i := range 800 * 600 {
		m.Set(i%800, i/800, color.RGBA{uint8(i / 7), uint8(i / 800), 120, 255})
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func (b *bench) choose(paths ...string) { b.t.Helper(); b.do(chromedp.SetUploadFiles("#files", paths)) }

func (b *bench) refused(words string) {
	b.t.Helper()
	b.wait(fmt.Sprintf(`[...document.querySelectorAll('.toast.bad')].some(e => e.textContent.includes(%q))`, words))
	b.run(`document.querySelectorAll('.toast').forEach(e => e.remove())`)
}

// With attachments_per_message = 0 a message has as many files as somebody chooses.
func TestPageAnyNumberOfAttachments(t *testing.T) {
	b := newBench(t, write(t, "limits.attachments_per_message = 0\n"))
	b.open("")
	b.fresh()
	b.wait(`document.querySelector('[aria-label="Attach files"]').checkVisibility()`)
	var files []string
	for i := range 12 {
		files = append(files, picked(t, fmt.Sprintf("%d.txt", i), []byte("a text")))
	}
	b.choose(files...)
	b.wait(chipCount + ` === 12`)
	b.say("Look at these")
	b.wait(mine("Look at these", "answered") + ` && document.querySelectorAll('#log .mine .file-name').length === 12`)
	b.quiet()
}

// Files are added with the button, dropped or pasted, go with a message, and are shown with it.
func TestPageAttachments(t *testing.T) {
	b := newBench(t, write(t, "limits.attachment_bytes = 2000000\nlimits.attachments_per_message = 3\n"))
	photo := picked(t, "photo &amp co.png", stripes(t))
	b.open("")
	b.fresh()

	// What cannot be attached says why; what can goes with the first message of a new conversation.
	b.choose(picked(t, "large.txt", bytes.Repeat([]byte("x"), 2000001)), picked(t, "old.txt", []byte("gr\xf6\xdfer")), picked(t, "no.png", []byte("no picture")))
	b.wait(`document.querySelectorAll('.toast.bad').length === 3`)
	b.refused("large.txt was not attached. It is too large: 1.9 MiB, at most 1.9 MiB.")
	b.choose(photo, picked(t, "notes.txt", []byte("one\ntwo <i>three</i>\n")))
	b.wait(chipCount + ` === 2 && document.querySelector('.chip img').src.startsWith('data:') && !document.querySelector('.send').disabled`)
	b.none("without a name", nameless)
	b.none("cut off", cut)
	b.none("too faint", faint)
	b.picture("attach")
	b.say("Look at this")
	b.wait(mine("Look at this", "answered") + ` && ` + idle + ` && ` + chipCount + ` === 0 && ` + drawnSmall)
	if names := eval[string](b, `[...document.querySelectorAll('#log .mine .file-name')].map(e => e.textContent).join()`); names != "photo &amp co.png,notes.txt" {
		t.Errorf("the message shows %q", names)
	}

	// All of a picture, and of a text.
	b.run(`document.querySelector('#log .picture').click()`)
	b.wait(`document.querySelector('dialog.viewer img')?.naturalWidth === 800`)
	b.none("without a name", nameless)
	b.none("cut off", cut)
	b.key(kb.Escape)
	b.wait(`!document.querySelector('dialog')`)
	b.run(`document.querySelector('#log button.file').click()`)
	b.wait(`document.querySelector('dialog.viewer pre')?.textContent === 'one\ntwo <i>three</i>\n'`)
	b.none("too faint", faint)
	b.key(kb.Escape)
	b.wait(`!document.querySelector('dialog')`)

	// A drop, a paste, and a message that is a file alone. A long text that is pasted stays one.
	b.run(`(window.bring = (name, type, text) => { const d = new DataTransfer(); d.items.add(new File([text], name, {type})); return d; })`)
	b.run(`document.querySelector('#scroller').dispatchEvent(new DragEvent('dragover', {bubbles: true, cancelable: true, dataTransfer: bring('d.md', 'text/markdown', '# d')}))`)
	b.wait(`document.querySelector('.drop-zone').checkVisibility()`)
	b.none("too faint", faint)
	b.run(`document.querySelector('#scroller').dispatchEvent(new DragEvent('drop', {bubbles: true, cancelable: true, dataTransfer: bring('d.md', 'text/markdown', '# d')}))`)
	b.run(`document.querySelector('#message').dispatchEvent(new ClipboardEvent('paste', {bubbles: true, cancelable: true, clipboardData: bring('pasted.txt', 'text/plain', 'p')}))`)
	b.wait(chipCount + ` === 2 && ` + allStored + ` && document.querySelector('.drop-zone').hidden`)
	b.choose(photo, picked(t, "fourth.txt", []byte("4")))
	b.refused("fourth.txt was not attached. A message has at most 3 files")
	b.run(`document.querySelector('[aria-label="Remove d.md"]').focus()`)
	b.key(kb.Enter)
	b.wait(chipCount + ` === 2 && ` + allStored + ` && document.activeElement.matches('.chip button')`)

	// What is uploaded stays chosen when the page is loaded again.
	b.do(chromedp.Reload())
	b.wait(`document.querySelector('#connection').dataset.state === 'open' && ` + chipCount + ` === 2`)
	b.do(chromedp.Focus("#message"))
	b.key(kb.Enter)
	b.wait(`document.querySelectorAll('#log .row.mine').length === 2 && ` + chipCount + ` === 0 && ` + idle)
	b.wait(`[...document.querySelectorAll('#log .row.mine')].at(-1).querySelectorAll('.attachment').length === 2`)
	b.run(`[...document.querySelectorAll('#log .row.mine')].at(-1).querySelector('.picture').scrollIntoView()`)
	b.wait(drawnSmall)

	b.size(360, 640)
	b.choose(photo)
	b.wait(chipCount + ` === 1 && ` + allStored)
	b.none("cut off", cut)
	b.run(`document.documentElement.dataset.theme = 'dark'`)
	b.none("too faint", faint)
	b.picture("attach-phone")
	b.quiet()
}

// A file whose upload breaks off is sent again by itself, and its message arrives once.
func TestPageAttachmentsAndALostConnection(t *testing.T) {
	b := newBench(t, emptyConfig(t))
	b.open("")
	b.fresh()
	b.say("/say hello")
	b.wait(finals + ` === 1 && ` + idle)
	link := func(bytesPerSecond float64) {
		b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			if _, err := cdp.Call(ctx, t, network.Enable, network.EnableParams{}); err != nil {
				return err
			}
			_, err := cdp.Call(ctx, t, network.EmulateNetworkConditionsByRule,
				network.EmulateNetworkConditionsByRuleParams{MatchedNetworkConditions: []*network.Conditions{{DownloadThroughput: -1, UploadThroughput: bytesPerSecond}}})
			return err
		}))
	}
	link(100 << 10)
	b.choose(picked(t, "long.txt", bytes.Repeat([]byte("all of it\n"), 500_000)))
	b.wait(`/Uploading [1-9]/.test(document.querySelector('.chip .file-size')?.textContent)`)
	b.say("/say got it")
	b.wait(mine("got it", "sending") + ` && ` + chipCount + ` === 0`)
	b.stop()
	b.wait(`document.querySelector('#connection').dataset.state !== 'open'`)
	link(-1)
	b.serve()
	b.wait(mine("got it", "answered") + ` && ` + finals + ` === 2 && ` + idle)
	b.do(chromedp.Reload())
	b.wait(finals + ` === 2 && document.querySelectorAll('#log .row.mine').length === 2 && document.querySelectorAll('#log .attachment.file').length === 1`)
	b.quiet()
}

// On a server that asks for keys, pictures are loaded with the key.
func TestPageAttachmentsWithKeys(t *testing.T) {
	needBrowser(t)
	id, key, hash := auth.NewKey()
	file := filepath.Join(t.TempDir(), "keys.toml")
	if err := auth.Add(file, auth.Key{ID: id, Hash: hash, Tenant: "default", User: "ann", Name: "Ann", Scopes: []string{"chat", "read:tools"}}); err != nil {
		t.Fatal(err)
	}
	b := newBench(t, write(t, "[auth]\nmode = \"keys\"\nkeys_file = \""+file+"\"\n"))
	b.do(chromedp.Navigate("http://" + b.addr + "/"))
	b.wait(`document.querySelectorAll('dialog[open] #token').length === 1`)
	b.key(key)
	b.key(kb.Enter)
	b.wait(`document.querySelector('#connection').dataset.state === 'open'`)
	b.choose(picked(t, "photo.png", stripes(t)))
	b.wait(chipCount + ` === 1`)
	b.do(chromedp.Focus("#message"))
	b.key(kb.Enter) // a file alone, and the first message of a new conversation
	b.wait(`[...document.querySelectorAll('#log .row.mine')].map(e => e.dataset.state).join() === 'answered' && ` + idle + ` && ` + drawnSmall)
	b.wait(`location.hash.startsWith('#/s/')`)
	b.do(chromedp.Reload())
	b.wait(drawnSmall)
	b.run(`document.querySelector('#log .picture').click()`)
	b.wait(`document.querySelector('dialog.viewer img')?.naturalWidth === 800`)
	b.key(kb.Escape)

	// What is erased is gone, also what was drawn of it.
	b.run(`fetch('/api/sessions/' + location.hash.slice(4), {method: 'DELETE', headers: {Authorization: 'Bearer ' + sessionStorage.getItem('parley.token')}})`)
	b.wait(`document.querySelectorAll('#log .row, .chip, #log img').length === 0`)
	b.quiet()
}
