package attached

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestName(t *testing.T) {
	for name, want := range map[string]string{
		"": "file", "photo.png": "photo.png", "../../etc/passwd": "passwd", `C:\Users\a b.png`: "a b.png", "a\r\nb.txt": "ab.txt",
		"[x]\"'.png": "x.png", "..": "file", "\u202egnp.exe": "gnp.exe", "caf\xe9.txt": "caf.txt", "山田.png": "山田.png",
		strings.Repeat("ä", 100): strings.Repeat("ä", 64),
	} {
		if got := Name(name); got != want {
			t.Errorf("Name(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestLine(t *testing.T) {
	f := File{Name: "photo.png", Type: "image/png", Size: 120 << 10}
	if got := f.Line(Unseen); got != "[attachment: photo.png, image/png, 120 KB; this model cannot see it]" {
		t.Error(got)
	}
}

// Whatever a text is: no line of it looks like that of an attachment, nothing but spaces is
// added, and a second time changes nothing.
func TestNothingForgesALine(t *testing.T) {
	piece := rapid.OneOf(rapid.SampledFrom([]string{
		"[attachment: ", "[ATTACHMENT", "[", "attach", "ment", "\n", "\r", "\u2028", "\u0085", "\u200b", "\u00ad", "\ufeff", " ", "]", "\x00", "\xff",
	}), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(piece, 0, 8).Draw(t, "pieces"), "")
		got := Escape(text)
		for _, line := range strings.FieldsFunc(got, breaks) {
			if strings.HasPrefix(strings.ToLower(line), head) || looksLike(line) {
				t.Fatalf("%q has the line %q", text, line)
			}
		}
		if Escape(got) != got || strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(text, " ", "") {
			t.Fatalf("%q became %q", text, got)
		}
	})
}
