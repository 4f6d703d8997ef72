//go:build e2e

package main

import (
	"os"
	"path/filepath"
	"testing"

	"parley/gateway/auth"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// On a server that asks for keys the page asks for one, until one fits, and again when it
// is taken back. It is kept for the tab alone.
func TestPageSignIn(t *testing.T) {
	needBrowser(t)
	id, key, hash := auth.NewKey()
	file := filepath.Join(t.TempDir(), "keys.toml")
	if err := auth.Add(file, auth.Key{ID: id, Hash: hash, Tenant: "default", User: "ann", Name: "Ann", Scopes: []string{"chat", "read:tools"}}); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(config, []byte("[auth]\nmode = \"keys\"\nkeys_file = \""+file+"\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := newBench(t, config)
	b.do(chromedp.Navigate("http://" + b.addr + "/"))
	const asks = `document.querySelectorAll('dialog[open] #token').length === 1`
	b.wait(asks + ` && document.querySelector('dialog[open]').innerText.includes('asks for an access key')`)
	b.key("wrong")
	b.key(kb.Enter)
	b.wait(asks + ` && document.querySelector('dialog[open]').innerText.includes('did not work')`)
	b.key(key)
	b.key(kb.Enter)
	b.wait(`!document.querySelector('dialog[open]') && document.querySelector('#connection').dataset.state === 'open'`)
	b.say("What is 17 * 23?")
	b.wait(finals + ` === 1 && ` + idle)
	b.wait(`document.querySelectorAll('#sessions a').length === 1`) // HTTP knows the key as well
	if got := eval[string](b, `sessionStorage.getItem('parley.token') + ' ' + Object.values(localStorage).join().includes('parley_')`); got != key+" false" {
		t.Errorf("the key is kept as %q", got)
	}
	if _, err := auth.Revoke(file, func(k auth.Key) bool { return k.ID == id }); err != nil {
		t.Fatal(err)
	}
	b.wait(asks + ` && document.querySelector('dialog[open]').innerText.includes('not valid any more')`)
}
