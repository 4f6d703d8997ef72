package option

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"time"
)

// A FieldError is one thing that is wrong with the options of a package, by the
// key of the configuration. Packages that can be configured return a list of
// them (Validate), so that the loader can say where the key was set.
//
// The fields of such options carry tags:
//
//	key      the dotted key, "inbox.mode"; a field without it is not configured
//	choices  the texts that are allowed, with commas between them
//	min, max the bounds, written as in the configuration: "1ms", "0", "256"
//	unit     "bytes": the number is a size and may be written as "256 KiB"
//	auto     the number that the text "auto" stands for
//	after    in a block: the key behind which this one is printed
type FieldError struct {
	Key      string // of the value that is wrong; within a block its name there, and "" for the block as a whole
	Sentence string // what the value must be, without the key and the value; "" if AtMost says it
	AtMost   string // the key whose value is the upper bound of Key's; "" = none
	Value    any    // the value, for Error; nil = Error does not say it
}

// Error is the key, the value if there is one, and the sentence; of a block as a
// whole the sentence alone.
func (e FieldError) Error() string {
	key, sentence := e.Key, e.Sentence
	if key == "" {
		return sentence
	}
	if e.Value != nil {
		key = fmt.Sprintf("%s = %v", key, e.Value)
	}
	if e.AtMost != "" {
		sentence = "must be at most " + e.AtMost
	}
	return key + ": " + sentence
}

// JoinFieldErrors makes one error of a list, with a line for each; nil of none.
func JoinFieldErrors(list []FieldError) error {
	errs := make([]error, 0, len(list))
	for _, wrong := range list {
		errs = append(errs, wrong)
	}
	return errors.Join(errs...)
}

// OutOfBounds compares the fields of a struct with their min and max tags.
// Structs in it are not looked into, and a field whose auto tag is its value is fine.
func OutOfBounds(options any) []FieldError {
	var wrong []FieldError
	v := reflect.ValueOf(options)
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag
		key, ok := tag.Lookup("key")
		if !ok {
			continue
		}
		var n float64
		var text string
		switch f := v.Field(i); {
		case f.CanInt():
			n, text = float64(f.Int()), fmt.Sprint(f.Interface())
		case f.CanFloat():
			n, text = f.Float(), fmt.Sprint(f.Interface())
		default:
			continue
		}
		if auto := tag.Get("auto"); auto != "" && auto == text {
			continue
		}
		if least, ok := bound(tag.Get("min")); ok && n < least {
			wrong = append(wrong, FieldError{Key: key, Sentence: "must be at least " + tag.Get("min"), Value: text})
		}
		if most, ok := bound(tag.Get("max")); ok && n > most {
			wrong = append(wrong, FieldError{Key: key, Sentence: "must be at most " + tag.Get("max"), Value: text})
		}
	}
	return wrong
}

// bound reads a min or max tag: a time, or a plain number.
func bound(tag string) (float64, bool) {
	if n, err := strconv.ParseFloat(tag, 64); err == nil {
		return n, true
	}
	d, err := time.ParseDuration(tag)
	return float64(d), err == nil
}
