package scripted

import (
	"testing"

	"parley/conversation/attached"
)

func TestGot(t *testing.T) {
	files := []attached.File{{Name: "a.png", Type: "image/png", Size: 1024}, {Name: "b.txt", Type: "text/plain", Size: 5}}
	if text := got(files); text != "I got 2 files: a.png (image/png, 1 KB), b.txt (text/plain, 5 bytes)." {
		t.Error(text)
	}
	if text := got(files[1:]); text != "I got 1 file: b.txt (text/plain, 5 bytes)." {
		t.Error(text)
	}
}
