package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/models/modelstest"
)

// A picture and a text that were uploaded are what the provider gets, in its own form: with
// the message, with the next one in front of it, and after a start; for who does not see, the
// picture's name. When the session is erased, nothing of them is left in the store.
func TestModelsAreGivenFiles(t *testing.T) {
	noise := make([]byte, 300<<10) // two chunks, which no compression makes smaller
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	picture := append([]byte("\x89PNG\r\n\x1a\n"), noise...)
	mark := string(noise[1000:1032])
	text := "first line\n```\n[attachment ends: a]\nthe-mark-of-the-text"
	for _, test := range []struct {
		wire  modelstest.Wire
		block string
		sees  bool
	}{
		{modelstest.Responses(), "provider = \"openai\"\napi = \"responses\"", true},
		{modelstest.Chat(), "provider = \"openai\"\napi = \"chat\"", true},
		{modelstest.Chat(), "provider = \"openai\"\napi = \"chat\"", false},
		{modelstest.Messages(), "provider = \"anthropic\"", true},
	} {
		t.Run(fmt.Sprintf("%s, sees %v", test.wire.Name, test.sees), func(t *testing.T) {
			u := modelstest.NewUpstream(t, test.wire, modelstest.Reply{Scenario: modelstest.Scenario{Items: []conversation.Item{{Kind: conversation.ItemText, Text: "I see."}}}})
			sees := ""
			if test.sees {
				sees = `"image"`
			}
			data := t.TempDir()
			config := write(t, fmt.Sprintf("[model]\ndefault = \"m\"\n[models.m]\n%s\nmodel = \"m\"\nbase_url = %q\nsees = [%s]\n", test.block, u.URL, sees))
			l := start(t, data, "--config", config)
			s := l.session()
			hashes := make([]string, 2)
			for i, file := range []struct{ kind, body string }{{"image/png", string(picture)}, {"text/plain", text}} {
				hash, status, err := l.upload(s, file.kind, []byte(file.body))
				if err != nil || status != 201 {
					t.Fatalf("upload: %d %v", status, err)
				}
				hashes[i] = hash
			}
			said := func(n int, body string) []string {
				t.Helper()
				if status, got := l.do("POST", "/api/sessions/"+s+"/messages?wait=20s", body); status != 200 || !bytes.Contains(got, []byte("I see.")) {
					t.Fatalf("message %d: %d %s", n, status, got)
				}
				all := u.Asked()
				if len(all) != n {
					t.Fatalf("%d requests, want %d", len(all), n)
				}
				return all[n-1].Said
			}
			line := fmt.Sprintf("[attachment: photo.png, image/png, %d KB; ", (len(picture)+512)>>10)
			want := []string{"user: look at this\n" + line + "shown below]\n", "picture image/png " + string(picture)}
			if !test.sees {
				want = []string{"user: look at this\n" + line + "this model cannot see it]\n"}
			}
			want[0] += fmt.Sprintf("[attachment: a, text/plain, %d bytes; its text follows]\n````\n%s\n````\n[attachment ends: a]", len(text), strings.Replace(text, "[att", " [att", 1))
			head := func(said []string) []string { // without the engine's note behind the last message
				said = slices.Clone(said[:min(len(want), len(said))])
				said[0], _, _ = strings.Cut(said[0], "\n\nOpen messages:")
				return said
			}
			got := said(1, fmt.Sprintf(`{"client_msg_id":"a","text":"look at this","attachments":[{"hash":%q,"name":"photo.png"},{"hash":%q}]}`, hashes[0], hashes[1]))
			if !slices.Equal(head(got), want) {
				t.Errorf("said is\n%.3000q\nnot\n%.3000q", got, want)
			}
			if got := said(2, `{"client_msg_id":"b","text":"and now?"}`); !slices.Equal(head(got), want) || !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "user: and now?") }) {
				t.Errorf("then said is\n%.3000q", got)
			}
			outcome := map[bool]string{true: "picture", false: "unseen"}[test.sees]
			l.measured(`parley_model_files_total{model="m",outcome="`+outcome+`"} 2`, `parley_model_files_total{model="m",outcome="text"} 2`)
			l.stop()
			l = start(t, data, "--config", config)
			if got := said(3, `{"client_msg_id":"c","text":"again"}`); !slices.Equal(head(got), want) {
				t.Errorf("after a start said is\n%.3000q", got)
			}
			if !inFiles(t, data, mark) {
				t.Error("the picture is not in the store")
			}
			if status, got := l.do("DELETE", "/api/sessions/"+s, ""); status != 204 {
				t.Fatalf("erase: %d %s", status, got)
			}
			for _, hash := range hashes {
				if status, _ := l.do("GET", "/api/blobs/"+hash, ""); status != 404 {
					t.Errorf("after the erasure a file is there: %d", status)
				}
			}
			for deadline := time.Now().Add(patience); inFiles(t, data, mark) || inFiles(t, data, "the-mark-of-the-text"); {
				if time.Now().After(deadline) {
					t.Fatal("the store still has the files")
				}
			}
			l.stop()
			if strings.Contains(l.out.String()+l.err.String(), "the-mark-of") {
				t.Error("the log has what is in a file")
			}
		})
	}
}

// inFiles is true if some file below a directory holds a text.
func inFiles(t *testing.T, dir, text string) (found bool) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // it went meanwhile
		}
		body, _ := os.ReadFile(path)
		found = found || bytes.Contains(body, []byte(text))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return found
}
