package rooms

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// A Profile is what is needed here of a profile in the format profile.proto.
type Profile struct {
	Types   []string // of the values, "cpu/nanoseconds"
	Samples []Sample
}

// A Sample is a stack of functions, the innermost first, and its values.
type Sample struct {
	Stack  []string
	Values []int64
}

var errProfile = errors.New("not a profile")

// Parse reads a profile, compressed or not.
func Parse(b []byte) (*Profile, error) {
	if bytes.HasPrefix(b, []byte{0x1f, 0x8b}) {
		r, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return nil, err
		}
		if b, err = io.ReadAll(r); err != nil {
			return nil, err
		}
	}
	// The fields of the messages Profile, ValueType, Sample, Location, Line and Function.
	var raw struct {
		types, samples, locations, functions [][]byte
		texts                                []string
	}
	if err := each(b, func(field protowire.Number, _ uint64, in []byte) error {
		switch field {
		case 1:
			raw.types = append(raw.types, in)
		case 2:
			raw.samples = append(raw.samples, in)
		case 4:
			raw.locations = append(raw.locations, in)
		case 5:
			raw.functions = append(raw.functions, in)
		case 6:
			raw.texts = append(raw.texts, string(in))
		}
		return nil
	}); err != nil {
		return nil, err
	}
	text := func(i uint64) string {
		if i >= uint64(len(raw.texts)) {
			return ""
		}
		return raw.texts[i]
	}
	p, functions, locations := &Profile{}, map[uint64]string{}, map[uint64][]string{}
	for _, b := range raw.types {
		var of, unit uint64
		if err := each(b, func(field protowire.Number, n uint64, _ []byte) error {
			switch field {
			case 1:
				of = n
			case 2:
				unit = n
			}
			return nil
		}); err != nil {
			return nil, err
		}
		p.Types = append(p.Types, text(of)+"/"+text(unit))
	}
	for _, b := range raw.functions {
		var id, name uint64
		if err := each(b, func(field protowire.Number, n uint64, _ []byte) error {
			switch field {
			case 1:
				id = n
			case 2:
				name = n
			}
			return nil
		}); err != nil {
			return nil, err
		}
		functions[id] = text(name)
	}
	for _, b := range raw.locations {
		if err := location(b, functions, locations); err != nil {
			return nil, err
		}
	}
	for _, b := range raw.samples {
		s, err := sample(b, locations)
		if err != nil {
			return nil, err
		}
		if len(s.Values) != len(p.Types) {
			return nil, fmt.Errorf("%w: %d values of %d kinds", errProfile, len(s.Values), len(p.Types))
		}
		p.Samples = append(p.Samples, s)
	}
	return p, nil
}

// location notes the functions of a place in the program: more than one where some
// are inlined, the innermost first.
func location(b []byte, functions map[uint64]string, locations map[uint64][]string) error {
	var id uint64
	var names []string
	if err := each(b, func(field protowire.Number, n uint64, in []byte) error {
		switch field {
		case 1:
			id = n
		case 4:
			return each(in, func(field protowire.Number, n uint64, _ []byte) error {
				if field == 1 {
					names = append(names, functions[n])
				}
				return nil
			})
		}
		return nil
	}); err != nil {
		return err
	}
	locations[id] = names
	return nil
}

func sample(b []byte, locations map[uint64][]string) (s Sample, err error) {
	err = each(b, func(field protowire.Number, n uint64, in []byte) error {
		return packed(n, in, func(n uint64) {
			switch field {
			case 1:
				s.Stack = append(s.Stack, locations[n]...)
			case 2:
				s.Values = append(s.Values, int64(n))
			}
		})
	})
	return s, err
}

// packed calls one for a number, or for each of those that lie packed in a field.
func packed(n uint64, in []byte, one func(uint64)) error {
	if in == nil {
		one(n)
		return nil
	}
	for len(in) > 0 {
		v, size := protowire.ConsumeVarint(in)
		if size < 0 {
			return errProfile
		}
		one(v)
		in = in[size:]
	}
	return nil
}

// each calls one for each field of a message: with its number, or with its bytes.
func each(b []byte, one func(field protowire.Number, n uint64, in []byte) error) error {
	for len(b) > 0 {
		field, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return errProfile
		}
		b = b[size:]
		var n uint64
		var in []byte
		switch kind {
		case protowire.VarintType:
			n, size = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			in, size = protowire.ConsumeBytes(b)
			if in == nil {
				in = []byte{}
			}
		default:
			size = protowire.ConsumeFieldValue(field, kind, b)
		}
		if size < 0 {
			return errProfile
		}
		if kind == protowire.VarintType || kind == protowire.BytesType {
			if err := one(field, n, in); err != nil {
				return err
			}
		}
		b = b[size:]
	}
	return nil
}
