package policy

import "testing"

// Texts and pictures take at most a third each of what a model holds.
func TestFiles(t *testing.T) {
	c := Context{FileText: 1 << 10, FileTexts: 4 << 10, Pictures: 20, PictureBytes: 1 << 20}
	for holds, want := range map[int]FileLimits{
		0:       {1 << 10, 4 << 10, 20, 1 << 20},
		100_000: {1 << 10, 4 << 10, 20, 1 << 20},
		48_000:  {1 << 10, 4 << 10, 10, 1 << 20},
		1500:    {1 << 10, 2000, 0, 1 << 20},
		300:     {400, 400, 0, 1 << 20},
		2:       {0, 0, 0, 1 << 20},
	} {
		if got := c.Files(holds); got != want {
			t.Errorf("%d tokens: %+v, want %+v", holds, got, want)
		}
	}
}
