package protocol

import (
	"strings"
	"testing"
)

func BenchmarkAppendString(b *testing.B) {
	for name, s := range map[string]string{"id": "m12-abcdef", "short": "What's the weather?", "text": strings.Repeat("All of it is plain. ", 20), "umlauts": strings.Repeat("Größe und Höhe über alles. ", 15)} {
		b.Run(name, func(b *testing.B) {
			dst := make([]byte, 0, 1024)
			for b.Loop() {
				dst = AppendString(dst[:0], s)
			}
		})
	}
}
