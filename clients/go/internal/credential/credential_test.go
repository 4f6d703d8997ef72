package credential

import (
	"encoding/base64"
	"testing"
)

func base64JSON(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

func TestExpiry(t *testing.T) {
	for token, want := range map[string]int64{
		"":                               0,
		"pk_0123456789":                  0,
		"a.b.c":                          0,
		"e30." + base64JSON(`{}`) + ".s": 0,
		"e30." + base64JSON(`{"exp":"x"}`) + ".s":        0,
		"e30." + base64JSON(`{"exp":1795253405}`) + ".s": 1795253405,
	} {
		at, expires := Expiry(token)
		if expires != (want > 0) || expires && at.Unix() != want {
			t.Errorf("%q: %v %v", token, at, expires)
		}
	}
}
