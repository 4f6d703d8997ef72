package wire

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"parley/conversation"
	"parley/conversation/listing"
	"parley/conversation/wire/internal/pb"
)

func one(body conversation.EventBody) conversation.Record {
	return conversation.Record{ID: "c", Events: []conversation.Event{{Seq: 1, At: sampleTime, Task: "t1-abc", Body: body}}}
}

func roundTrip(t *testing.T, want conversation.Record) {
	t.Helper()
	b := AppendRecord(nil, want)
	got, err := DecodeRecord(b)
	if err != nil {
		t.Fatalf("decode: %v\nof %#v", err, want)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("came back as\n%#v\nwas\n%#v", got, want)
	}
	if again := AppendRecord(nil, want); !bytes.Equal(b, again) {
		t.Fatalf("encoded twice, two encodings:\n%x\n%x", b, again)
	}
	asGenerated(t, b, &pb.Record{})
}

// asGenerated fails when the generated code would write other bytes than the
// writer has: both must follow events.proto and store.proto.
func asGenerated(t *testing.T, b []byte, m proto.Message) {
	t.Helper()
	if err := proto.Unmarshal(b[1:], m); err != nil {
		t.Fatal(err)
	}
	want, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b[1:], want) || b[0] != format {
		t.Fatalf("written as\n%x\nand by the generated code as\n%x\nof %v", b[1:], want, m)
	}
}

// N-03: a client that resumes sees what an always-connected client saw, so an
// event must come back from the store exactly as it was emitted.
func TestEveryEventComesBackExactly(t *testing.T) {
	byKind := map[conversation.EventKind]conversation.EventBody{}
	for _, body := range samples() {
		if _, twice := byKind[body.Kind()]; twice {
			t.Errorf("two samples of %s", body.Kind())
		}
		byKind[body.Kind()] = body
	}
	for _, kind := range conversation.EventKinds() {
		body := byKind[kind]
		if body == nil {
			t.Errorf("no sample of %s", kind)
			continue
		}
		t.Run("N-03/"+kind.String()+"/every field set", func(t *testing.T) {
			// Without this a field that the codec forgets would go unnoticed.
			everyFieldSet(t, reflect.ValueOf(body), kind.String())
			roundTrip(t, one(body))
		})
		t.Run("N-03/"+kind.String()+"/zero", func(t *testing.T) {
			roundTrip(t, one(reflect.Zero(reflect.TypeOf(body)).Interface().(conversation.EventBody)))
			roundTrip(t, conversation.Record{Events: []conversation.Event{{
				Body: reflect.Zero(reflect.TypeOf(body)).Interface().(conversation.EventBody),
			}}})
		})
		t.Run("N-03/"+kind.String()+"/random", func(t *testing.T) {
			for n := range 200 {
				seed := uint64(n)
				random := rand.New(rand.NewPCG(seed, uint64(kind)))
				v := reflect.New(reflect.TypeOf(body)).Elem()
				fill(t, random, v)
				roundTrip(t, one(v.Interface().(conversation.EventBody)))
			}
		})
	}
	if len(byKind) != len(conversation.EventKinds()) {
		t.Errorf("%d samples for %d kinds", len(byKind), len(conversation.EventKinds()))
	}
}

// everyFieldSet fails for a field that is zero. In a slice of structs each field
// must be set in one element at least.
func everyFieldSet(t *testing.T, v reflect.Value, path string) {
	t.Helper()
	if v.IsZero() {
		t.Errorf("%s is not set in the sample", path)
		return
	}
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
	case v.Kind() == reflect.Pointer:
		everyFieldSet(t, v.Elem(), path)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			everyFieldSet(t, v.Field(i), path+"."+v.Type().Field(i).Name)
		}
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		element := v.Type().Elem()
		for f := range element.NumField() {
			set := false
			for i := range v.Len() {
				set = set || !v.Index(i).Field(f).IsZero()
			}
			if !set {
				t.Errorf("%s.%s is not set in the sample", path, element.Field(f).Name)
			}
		}
	}
}

func TestRecordComesBackExactly(t *testing.T) {
	roundTrip(t, sampleRecord())
	all := conversation.Record{ID: "all"}
	for i, body := range samples() {
		all.Events = append(all.Events, conversation.Event{Seq: conversation.Seq(i + 1), At: sampleTime, Body: body})
	}
	roundTrip(t, all)
}

func TestRowsComeBackExactly(t *testing.T) {
	row := sampleTaskRow()
	everyFieldSet(t, reflect.ValueOf(row), "TaskRow")
	comesBack(t, AppendTaskRow, DecodeTaskRow, row)
	comesBack(t, AppendTaskRow, DecodeTaskRow, conversation.TaskRow{})

	summary := sampleSummary()
	summary.Seen, summary.Marks = 7, listing.Pinned // each reader has others: they are left out
	everyFieldSet(t, reflect.ValueOf(summary), "Summary")
	got, err := DecodeSummary(AppendSummary(nil, summary))
	if want := sampleSummary(); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("summary came back as %+v, %v; was %+v", got, err, want)
	}
	comesBack(t, AppendSummary, DecodeSummary, conversation.Summary{})

	head := sampleHead()
	everyFieldSet(t, reflect.ValueOf(head), "HeadRow")
	comesBack(t, AppendHead, DecodeHead, head)
	comesBack(t, AppendHead, DecodeHead, HeadRow{})

	asGenerated(t, AppendTaskRow(nil, row), &pb.TaskRow{})
	asGenerated(t, AppendSummary(nil, summary), &pb.Summary{})
	asGenerated(t, AppendHead(nil, head), &pb.HeadRow{})
}

func comesBack[T any](t *testing.T, add func([]byte, T) []byte, decode func([]byte) (T, error), want T) {
	t.Helper()
	got, err := decode(add(nil, want))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("came back as %+v, %v; was %+v", got, err, want)
	}
}

func TestAppendKeepsWhatWasThere(t *testing.T) {
	before := []byte("before")
	b := AppendRecord(bytes.Clone(before), sampleRecord())
	if !bytes.HasPrefix(b, before) || !bytes.Equal(b[len(before):], AppendRecord(nil, sampleRecord())) {
		t.Errorf("appended to %q: %q", before, b)
	}
	broken := one(conversation.SessionClosed{Reason: "\xff"})
	b = AppendRecord(bytes.Clone(before), broken)
	if !bytes.HasPrefix(b, before) || !bytes.Equal(b[len(before):], AppendRecord(nil, broken)) {
		t.Errorf("repaired behind %q: %q", before, b)
	}
}

func TestDecodedKeepsNothingOfItsInput(t *testing.T) {
	b := AppendRecord(nil, sampleRecord())
	got, err := DecodeRecord(b)
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		b[i] = 'x'
	}
	if !reflect.DeepEqual(got, sampleRecord()) {
		t.Errorf("changed with its input: %+v", got)
	}
}

func TestLimitsOfTheEncoding(t *testing.T) {
	decoded := func(body conversation.EventBody) conversation.EventBody {
		t.Helper()
		r, err := DecodeRecord(AppendRecord(nil, one(body)))
		if err != nil {
			t.Fatal(err)
		}
		return r.Events[0].Body
	}
	tests := []struct {
		name      string
		was, want conversation.EventBody
	}{
		{
			"times are cut to milliseconds and UTC",
			conversation.TaskCancelling{Until: sampleTime.Add(999 * time.Microsecond).In(time.FixedZone("", 3600))},
			conversation.TaskCancelling{Until: sampleTime},
		},
		{
			"times before 1970",
			conversation.TaskCancelling{Until: time.Date(1969, 1, 1, 0, 0, 0, 1e6, time.UTC)},
			conversation.TaskCancelling{Until: time.Date(1969, 1, 1, 0, 0, 0, 1e6, time.UTC)},
		},
		{
			"the first moment of 1970 is no time",
			conversation.TaskCancelling{Until: time.UnixMilli(0)},
			conversation.TaskCancelling{},
		},
		{
			"durations are cut to milliseconds",
			conversation.ToolFinished{Took: 1500 * time.Microsecond},
			conversation.ToolFinished{Took: time.Millisecond},
		},
		{
			"empty is nil",
			conversation.StepFinished{
				Decisions: []conversation.Decision{},
				Items:     []conversation.Item{},
				Results:   []conversation.CallResult{},
			},
			conversation.StepFinished{},
		},
		{
			"no overrides are nil",
			conversation.SessionUpdated{Policy: conversation.Overrides{}},
			conversation.SessionUpdated{},
		},
		{
			"empty and absent differ where it matters",
			conversation.SessionUpdated{Title: new(""), Access: new(conversation.AccessPrivate)},
			conversation.SessionUpdated{Title: new(""), Access: new(conversation.AccessPrivate)},
		},
		{
			"part 0 and no part differ",
			conversation.MessageResolved{Part: new(conversation.PartIndex(0))},
			conversation.MessageResolved{Part: new(conversation.PartIndex(0))},
		},
		{
			"an empty default and none differ",
			conversation.Asked{Default: new(""), Approval: &conversation.Approval{}},
			conversation.Asked{Default: new(""), Approval: &conversation.Approval{}},
		},
		{
			"a usage of nothing and none differ",
			conversation.StepStarted{Usage: &conversation.Usage{}, Error: &conversation.Failure{}},
			conversation.StepStarted{Usage: &conversation.Usage{}, Error: &conversation.Failure{}},
		},
		{
			"what is not UTF-8 is replaced, byte by byte",
			conversation.ToolFinished{Summary: "caf\xe9 \xff\xfe!"},
			conversation.ToolFinished{Summary: "caf\uFFFD \uFFFD\uFFFD!"},
		},
		{
			"in lists, messages and overrides too",
			conversation.StepFinished{
				Error:   &conversation.Failure{Message: "\xff"},
				Items:   []conversation.Item{{Args: "\xff"}},
				Results: []conversation.CallResult{{Text: "ok"}, {Text: "\xff"}},
			},
			conversation.StepFinished{
				Error:   &conversation.Failure{Message: "\uFFFD"},
				Items:   []conversation.Item{{Args: "\uFFFD"}},
				Results: []conversation.CallResult{{Text: "ok"}, {Text: "\uFFFD"}},
			},
		},
		{
			"in choices",
			conversation.Asked{Choices: []string{"a", "\xff"}},
			conversation.Asked{Choices: []string{"a", "\uFFFD"}},
		},
		{
			"in overrides",
			conversation.SessionCreated{Policy: conversation.Overrides{"a\xff": []byte("\"\xff\"")}},
			conversation.SessionCreated{Policy: conversation.Overrides{"a\uFFFD": []byte("\"\uFFFD\"")}},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := decoded(test.was); !reflect.DeepEqual(got, test.want) {
				t.Errorf("came back as %#v, want %#v", got, test.want)
			}
		})
	}
}

// handmade puts an event of these fields into a record.
func handmade(event []byte) []byte {
	b := []byte{format}
	b = protowire.AppendTag(b, 2, protowire.BytesType)
	return protowire.AppendBytes(b, event)
}

func message(number protowire.Number, content []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), content)
}

func number(n protowire.Number, value uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, n, protowire.VarintType), value)
}

// M-31: what a newer writer says that this program does not know is refused as too
// new, never guessed; what is no record at all is corrupt.
func TestDecodeRefuses(t *testing.T) {
	tooNew, corrupt := conversation.ErrTooNew, ErrCorrupt
	good := AppendRecord(nil, sampleRecord())
	newest := protowire.Number(10 + len(conversation.EventKinds()))
	tests := []struct {
		name  string
		bytes []byte
		want  error
	}{
		{"nothing", nil, corrupt},
		{"a record without events", []byte{format}, corrupt},
		{"another format", append([]byte{format + 1}, good[1:]...), tooNew},
		{"half a record", good[:len(good)/2], corrupt},
		{"an event that says nothing", handmade(number(1, 7)), corrupt},
		{"an unknown kind of event", handmade(message(newest+1, nil)), tooNew},
		{"an unknown kind of event that is a number", handmade(number(newest+9, 1)), tooNew},
		{"an unknown kind beside a known one", handmade(append(message(13, nil), message(newest+1, nil)...)), tooNew},
		{"a body of the wrong type", handmade(number(13, 1)), tooNew},
		{"text that is not UTF-8", handmade(message(13, message(1, []byte("\xff")))), corrupt},
		{"an unknown disposition", handmade(message(14, number(5, 5))), tooNew},
		{"an unknown access in an update", handmade(message(12, number(2, 2))), tooNew},
		{"a number beyond a byte", handmade(message(19, number(3, 256+2))), tooNew},
		{"an unknown decision", handmade(message(22, number(4, 5))), tooNew},
		{"an unknown item", handmade(message(22, message(10, number(1, 3)))), tooNew},
		{"an endless duration", handmade(message(29, number(4, 1<<62))), corrupt},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r, err := DecodeRecord(test.bytes)
			if !errors.Is(err, test.want) {
				t.Errorf("got %+v, error %v; want %v", r, err, test.want)
			}
			if errors.Is(err, tooNew) && errors.Is(err, corrupt) {
				t.Errorf("%v is both too new and corrupt", err)
			}
		})
	}
	t.Run("which event is in the error", func(t *testing.T) {
		_, err := DecodeRecord(handmade(append(number(1, 41), message(newest+1, nil)...)))
		want := fmt.Sprintf("event 41: written by a newer version: event kind %d", newest+1-10)
		if err == nil || err.Error() != want {
			t.Errorf("error %q, want %q", err, want)
		}
	})
}

// A newer version may add a field to an event; this one reads the rest.
func TestDecodeIgnoresNewFields(t *testing.T) {
	event := append(number(1, 7), number(9, 1)...) // 9: of the event itself
	event = append(event, message(13, append(message(1, []byte("bye")), number(99, 1)...))...)
	r, err := DecodeRecord(handmade(event))
	want := conversation.Event{Seq: 7, Body: conversation.SessionClosed{Reason: "bye"}}
	if err != nil || len(r.Events) != 1 || !reflect.DeepEqual(r.Events[0], want) {
		t.Errorf("got %+v, %v; want %+v", r, err, want)
	}
}

func TestDecodeRowsRefuse(t *testing.T) {
	decoders := map[string]func([]byte) error{
		"task row": func(b []byte) error { _, err := DecodeTaskRow(b); return err },
		"summary":  func(b []byte) error { _, err := DecodeSummary(b); return err },
		"head":     func(b []byte) error { _, err := DecodeHead(b); return err },
	}
	for name, decode := range decoders {
		t.Run(name, func(t *testing.T) {
			if err := decode(nil); !errors.Is(err, ErrCorrupt) {
				t.Errorf("nothing: %v", err)
			}
			if err := decode([]byte{format, 0xff}); !errors.Is(err, ErrCorrupt) {
				t.Errorf("half a tag: %v", err)
			}
			if err := decode([]byte{format + 1}); !errors.Is(err, conversation.ErrTooNew) {
				t.Errorf("another format: %v", err)
			}
		})
	}
	if _, err := DecodeTaskRow(append([]byte{format}, number(4, 7)...)); !errors.Is(err, conversation.ErrTooNew) {
		t.Errorf("an unknown status: %v", err)
	}
	if _, err := DecodeSummary(append([]byte{format}, number(6, 2)...)); !errors.Is(err, conversation.ErrTooNew) {
		t.Errorf("an unknown access: %v", err)
	}
}

// Any damage ends in an error or in another value, never in a panic.
func TestDamageNeverPanics(t *testing.T) {
	for _, body := range samples() {
		good := AppendRecord(nil, one(body))
		for i := range good {
			checkDamaged(t, good[:i])
			for _, flip := range []byte{0x01, 0x80, 0xff} {
				bad := bytes.Clone(good)
				bad[i] ^= flip
				checkDamaged(t, bad)
			}
		}
	}
}

func checkDamaged(t *testing.T, b []byte) {
	t.Helper()
	_, err := DecodeRecord(b)
	if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, conversation.ErrTooNew) {
		t.Errorf("%x: an error of neither kind: %v", b, err)
	}
}

// The decoder's largest numbers are the vocabulary's: a constant that is added
// there and forgotten here would be written and then refused.
func TestEnumsAreComplete(t *testing.T) {
	for _, body := range samples() {
		eachType(reflect.TypeOf(body), func(at reflect.Type) {
			if _, ok := enums[at]; at.Kind() == reflect.Uint8 && at.Name() != "uint8" && !ok {
				t.Errorf("%s is not in the table of enums", at)
			}
		})
	}
	for at, e := range enums {
		if e.name == nil {
			continue
		}
		if strings.HasPrefix(e.name(e.last), "unknown(") {
			t.Errorf("%s %d has no name", at, e.last)
		}
		if !strings.HasPrefix(e.name(e.last+1), "unknown(") {
			t.Errorf("%s %d (%s) is beyond what the decoder takes", at, e.last+1, e.name(e.last+1))
		}
	}
	for _, body := range samples() {
		// Samples carry the largest number of most enums, so what the decoder takes
		// is proved by the round trips; one more is refused here.
		v := reflect.New(reflect.TypeOf(body)).Elem()
		for i := range v.NumField() {
			e, ok := enums[v.Field(i).Type()]
			if !ok {
				continue
			}
			v.SetZero()
			v.Field(i).SetUint(uint64(e.last) + 1)
			_, err := DecodeRecord(AppendRecord(nil, one(v.Interface().(conversation.EventBody))))
			if !errors.Is(err, conversation.ErrTooNew) {
				t.Errorf("%s.%s = %d: %v", v.Type(), v.Type().Field(i).Name, e.last+1, err)
			}
			v.Field(i).SetUint(uint64(e.last))
			if _, err := DecodeRecord(AppendRecord(nil, one(v.Interface().(conversation.EventBody)))); err != nil {
				t.Errorf("%s.%s = %d: %v", v.Type(), v.Type().Field(i).Name, e.last, err)
			}
		}
	}
}

func eachType(at reflect.Type, do func(reflect.Type)) {
	do(at)
	switch at.Kind() {
	case reflect.Pointer, reflect.Slice:
		eachType(at.Elem(), do)
	case reflect.Struct:
		if at == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range at.NumField() {
			eachType(at.Field(i).Type, do)
		}
	}
}

func FuzzDecodeRecord(f *testing.F) {
	f.Add(AppendRecord(nil, sampleRecord()))
	for _, body := range samples() {
		f.Add(AppendRecord(nil, one(body)))
	}
	f.Add([]byte{format})
	f.Add(handmade(message(99, nil)))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := DecodeRecord(b)
		if err != nil {
			checkDamaged(t, b)
			return
		}
		roundTrip(t, r)
	})
}

func FuzzDecodeRows(f *testing.F) {
	f.Add(AppendTaskRow(nil, sampleTaskRow()))
	f.Add(AppendSummary(nil, sampleSummary()))
	f.Add(AppendHead(nil, sampleHead()))
	f.Fuzz(func(t *testing.T, b []byte) {
		if row, err := DecodeTaskRow(b); err == nil {
			comesBack(t, AppendTaskRow, DecodeTaskRow, row)
		}
		if s, err := DecodeSummary(b); err == nil {
			comesBack(t, AppendSummary, DecodeSummary, s)
		}
		if h, err := DecodeHead(b); err == nil {
			comesBack(t, AppendHead, DecodeHead, h)
		}
	})
}
