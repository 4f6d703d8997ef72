package httpmodel

import "encoding/json"

// Pieces joins one string that arrives in several JSON strings. Some servers cut a
// character that JSON writes as two escapes (`\ud83d\ude00`) between them: the first
// half waits here for the second. The zero value is ready.
type Pieces struct{ half json.RawMessage }

// Next decodes a JSON string and returns what is to be appended. A half that never
// gets its other one becomes U+FFFD.
func (p *Pieces) Next(raw json.RawMessage) string {
	if len(raw) < 2 || raw[0] != '"' {
		return "" // no string
	}
	if p.half != nil && len(raw) > 2 {
		raw = append(append(append(make(json.RawMessage, 0, len(raw)+len(p.half)), '"'), p.half...), raw[1:]...)
		p.half = nil
	}
	if end := len(raw) - 1; endsInHalf(raw[:end]) {
		p.half = append(p.half, raw[end-escape:end]...)
		raw = append(append(make(json.RawMessage, 0, end), raw[:end-escape]...), '"')
	}
	var text string
	_ = json.Unmarshal(raw, &text)
	return text
}

// Rest returns what stands for a half whose other one did not come.
func (p *Pieces) Rest() string {
	if p.half == nil {
		return ""
	}
	p.half = nil
	return "\uFFFD"
}

// escape is the length of an escape such as \ud83d.
const escape = 6

// endsInHalf is true for the inside of a JSON string that ends with the escape of the
// first half of a pair: \ud800 to \udbff.
func endsInHalf(inside []byte) bool {
	n := len(inside)
	if n < escape || inside[n-6] != '\\' || inside[n-5] != 'u' || inside[n-4]|0x20 != 'd' {
		return false
	}
	switch inside[n-3] | 0x20 { // an upper-case letter, too; a digit stays as it is
	case '8', '9', 'a', 'b':
	default:
		return false
	}
	backslashes := 0
	for i := n - escape; i >= 0 && inside[i] == '\\'; i-- {
		backslashes++
	}
	return backslashes%2 == 1 // an even number stands for backslashes themselves
}
