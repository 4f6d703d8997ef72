package written

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Table is a table on one line, its keys in order; text writes a value.
func Table[V any](table map[string]V, text func(name string, value V) string) string {
	pairs := make([]string, 0, len(table))
	for _, name := range slices.Sorted(maps.Keys(table)) {
		pairs = append(pairs, String(name)+" = "+text(name, table[name]))
	}
	return "{ " + strings.Join(pairs, ", ") + " }"
}

// Value is any value of a document as TOML writes it.
func Value(v any) string {
	switch v := v.(type) {
	case string:
		return String(v)
	case map[string]any:
		return Table(v, func(_ string, value any) string { return Value(value) })
	case []any:
		list := make([]string, 0, len(v))
		for _, item := range v {
			list = append(list, Value(item))
		}
		return "[" + strings.Join(list, ", ") + "]"
	case float64:
		s := strconv.FormatFloat(v, 'g', -1, 64)
		if !strings.ContainsAny(s, ".en") { // nan, inf and exponents are floats as they are
			s += ".0"
		}
		return s
	default:
		return fmt.Sprint(v)
	}
}

// Duration is d without the zero units that time.Duration prints ("10m0s").
func Duration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

var byteUnits = []struct {
	name string
	size int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1}}

// ParseBytes reads a size: bytes, or a number with a unit ("256 KiB").
func ParseBytes(s string) (int64, bool) {
	number, unit := strings.TrimSpace(s), int64(1)
	for _, u := range byteUnits {
		if rest, ok := strings.CutSuffix(number, u.name); ok {
			number, unit = strings.TrimSpace(rest), u.size
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n > math.MaxInt64/unit || n < math.MinInt64/unit {
		return 0, false
	}
	return n * unit, true
}

// Bytes is a size with the largest unit that divides it.
func Bytes(b int64) string {
	for _, u := range byteUnits[:3] {
		if b != 0 && b%u.size == 0 {
			return fmt.Sprintf(`"%d %s"`, b/u.size, u.name)
		}
	}
	return strconv.FormatInt(b, 10)
}

// String writes s as a basic string; Go's escapes beyond \uXXXX are not TOML's.
func String(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
