package frame

import (
	"bytes"
	"errors"
	"strconv"
)

// Frame holds the top-level fields of a frame of the server; they point into Raw.
// Re is nil if the frame is no answer, Seq 0 if it is no event.
type Frame struct {
	Raw, Type, Re, Session, Data, Err []byte
	Seq                               uint64
}

var errFrame = errors.New("not a frame of the protocol")

// Scan finds the top-level fields without looking into them. encoding/json would
// cost the load generator more than the server needs to write the frame.
func (f *Frame) Scan(b []byte) error {
	*f = Frame{Raw: b}
	i := 1
	if len(b) < 2 || b[0] != '{' {
		return errFrame
	}
	for i < len(b) && b[i] != '}' {
		if b[i] == ',' || b[i] == ' ' {
			i++
			continue
		}
		end, ok := skip(b, i)
		if !ok || b[i] != '"' || end >= len(b) || b[end] != ':' {
			return errFrame
		}
		key := b[i+1 : end-1]
		from := end + 1
		to, ok := skip(b, from)
		if !ok {
			return errFrame
		}
		value := b[from:to]
		switch string(key) {
		case "type":
			f.Type = unquote(value)
		case "re":
			f.Re = unquote(value)
			if f.Re == nil {
				f.Re = []byte{} // null: an answer all the same
			}
		case "session":
			f.Session = unquote(value)
		case "seq":
			n, err := strconv.ParseUint(string(value), 10, 64)
			if err != nil {
				return errFrame
			}
			f.Seq = n
		case "data":
			f.Data = value
		case "error":
			f.Err = value
		}
		i = to
	}
	if f.Type == nil {
		return errFrame
	}
	return nil
}

// Ended is true for a task_status of a task that will not run again.
func (f *Frame) Ended() bool {
	return bytes.Contains(f.Data, []byte(`"new_status":"COMPLETE"`)) ||
		bytes.Contains(f.Data, []byte(`"new_status":"ERROR"`)) ||
		bytes.Contains(f.Data, []byte(`"new_status":"CANCELLED"`))
}

// skip is the index behind the JSON value that starts at i.
func skip(b []byte, i int) (int, bool) {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			for i++; i < len(b) && b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
			if i >= len(b) {
				return 0, false
			}
			i++
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			if depth == 0 {
				return i, true // the end of a number or word before it
			}
			depth--
			i++
		case ',', ':':
			if depth == 0 {
				return i, true
			}
			i++
			continue
		default:
			i++
			if depth == 0 && i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' {
				continue
			}
		}
		if depth == 0 {
			return i, true
		}
	}
	return 0, false
}

func unquote(b []byte) []byte {
	if len(b) < 2 || b[0] != '"' {
		return nil
	}
	return b[1 : len(b)-1] // the fields that are looked at hold no escapes
}
