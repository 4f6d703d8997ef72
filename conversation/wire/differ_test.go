package wire

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"strconv"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"parley/conversation"
	"parley/conversation/wire/internal/pb"
)

// The reader is held against the oracle: for any bytes the same value, or a
// refusal of the same sort.

// agree fails when two decoders do not say the same of b. The text of a refusal
// counts only where both looked at a readable message: the generated code has no
// fixed text for damage.
func agree[T any](t *testing.T, b []byte, decode, oracle func([]byte) (T, error)) {
	t.Helper()
	got, err := decode(b)
	want, wantErr := oracle(b)
	switch {
	case (err == nil) != (wantErr == nil),
		errors.Is(err, ErrCorrupt) != errors.Is(wantErr, ErrCorrupt),
		errors.Is(err, conversation.ErrTooNew) != errors.Is(wantErr, conversation.ErrTooNew):
		t.Fatalf("%x\nerror %v\nthe oracle's: %v", b, err, wantErr)
	case errors.Is(err, conversation.ErrTooNew) && err.Error() != wantErr.Error():
		t.Fatalf("%x\nerror %q\nthe oracle's: %q", b, err, wantErr)
	case !reflect.DeepEqual(got, want):
		t.Fatalf("%x\nread as %#v\nby the oracle as %#v", b, got, want)
	}
}

// allAgree reads b as everything that is stored.
func allAgree(t *testing.T, b []byte) {
	t.Helper()
	agree(t, b, DecodeRecord, oracleRecord)
	agree(t, b, DecodeTaskRow, oracleTaskRow)
	agree(t, b, DecodeSummary, oracleSummary)
	agree(t, b, DecodeHead, oracleHead)
}

// startSeed is the seed of a random test: PARLEY_SEED, or the clock.
func startSeed(t *testing.T) uint64 {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("PARLEY_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("rerun with PARLEY_SEED=%d go test ./conversation/wire -run '^%s$'", seed, t.Name())
	return seed
}

// storedValues are all samples and random values of their types, encoded.
func storedValues(t *testing.T, r *rand.Rand) [][]byte {
	all := [][]byte{
		AppendRecord(nil, sampleRecord()), AppendTaskRow(nil, sampleTaskRow()), AppendSummary(nil, sampleSummary()), AppendHead(nil, sampleHead()),
	}
	for _, body := range samples() {
		all = append(all, AppendRecord(nil, one(body)))
		record := conversation.Record{ID: "random"}
		for i := range 1 + r.IntN(3) {
			v := reflect.New(reflect.TypeOf(body)).Elem()
			fill(t, r, v)
			record.Events = append(record.Events, conversation.Event{Seq: conversation.Seq(i), At: sampleTime, Body: v.Interface().(conversation.EventBody)})
		}
		all = append(all, AppendRecord(nil, record))
	}
	return all
}

func TestReaderAgreesWithTheGeneratedCode(t *testing.T) {
	rounds := 500
	if testing.Short() {
		rounds = 50
	}
	r := rand.New(rand.NewPCG(startSeed(t), 0))
	outcomes := map[string]int{}
	for range rounds {
		for _, b := range storedValues(t, r) {
			allAgree(t, b)
			for range 1 + r.IntN(3) {
				b = append(b[:1:1], mutated(r, b[1:], 0)...)
				allAgree(t, b)
				outcomes[outcome(b)]++
			}
			b[r.IntN(len(b))] ^= 1 << r.IntN(8)
			allAgree(t, b)
			allAgree(t, b[:r.IntN(len(b))])
		}
	}
	t.Logf("mutated records: %v", outcomes)
	for _, what := range []string{"read", "too new", "corrupt"} {
		if outcomes[what] < rounds {
			t.Errorf("only %d of the mutated records were %s: the mutations are of no use", outcomes[what], what)
		}
	}
}

func outcome(b []byte) string {
	switch _, err := DecodeRecord(b); {
	case err == nil:
		return "read"
	case errors.Is(err, conversation.ErrTooNew):
		return "too new"
	default:
		return "corrupt"
	}
}

func FuzzReadersAgree(f *testing.F) {
	for _, body := range samples() {
		f.Add(AppendRecord(nil, one(body)))
	}
	f.Add(AppendRecord(nil, sampleRecord()))
	f.Add(AppendTaskRow(nil, sampleTaskRow()))
	f.Add(AppendSummary(nil, sampleSummary()))
	f.Add(AppendHead(nil, sampleHead()))
	f.Fuzz(allAgree)
}

// field is one field of a message as it stands there.
type field struct {
	number protowire.Number
	typ    protowire.Type
	value  []byte // without its length
}

// split takes a message apart; nil if it is none.
func split(b []byte) (all []field) {
	for len(b) > 0 {
		number, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(number, typ, b); n < 0 {
			return nil
		}
		value := b[:n]
		if typ == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(b)
		}
		all = append(all, field{number, typ, value})
		b = b[n:]
	}
	return all
}

func join(all []field) (b []byte) {
	for _, f := range all {
		b = protowire.AppendTag(b, f.number, f.typ)
		if f.typ == protowire.BytesType {
			b = protowire.AppendBytes(b, f.value)
		} else {
			b = append(b, f.value...)
		}
	}
	return b
}

// edgeNumbers are values at which a reader may go wrong.
var edgeNumbers = []uint64{
	0, 1, 2, 3, 4, 5, 6, 7, 8, 127, 128, 255, 256, 257, math.MaxUint32, math.MaxUint32 + 3, 1 << 40, math.MaxInt64, 1 << 63, math.MaxUint64,
	math.MaxInt64 / 1_000_000, math.MaxInt64/1_000_000 + 1,
}

var edgeFields = []protowire.Number{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 19, 22, 33, 34, 99, protowire.MaxValidNumber, protowire.MaxValidNumber + 1}

// mutated changes one thing of a message, or of a message in it.
func mutated(r *rand.Rand, b []byte, depth int) []byte {
	all := split(bytes.Clone(b))
	if len(all) == 0 {
		return append(bytes.Clone(b), randomField(r)...)
	}
	i := r.IntN(len(all))
	f := &all[i]
	if f.typ == protowire.BytesType && depth < 4 && r.IntN(4) > 0 {
		f.value = mutated(r, f.value, depth+1)
		return join(all)
	}
	switch r.IntN(9) {
	case 0: // gone
		all = append(all[:i:i], all[i+1:]...)
	case 1: // twice
		all = append(all, *f)
	case 2: // at another place
		j := r.IntN(len(all))
		all[i], all[j] = all[j], all[i]
	case 3: // with another number
		f.number = edgeFields[r.IntN(len(edgeFields))]
	case 4: // as a number, or with another one
		f.typ, f.value = protowire.VarintType, protowire.AppendVarint(nil, edgeNumbers[r.IntN(len(edgeNumbers))])
	case 5: // as a text, or another one
		f.typ, f.value = protowire.BytesType, []byte([]string{"", "x", "ü", "\xff", "\x08\x01", "\x03\x00\x80"}[r.IntN(6)])
	case 6: // twice, the second time with another value
		f2 := *f
		switch f.typ {
		case protowire.VarintType:
			f2.value = protowire.AppendVarint(nil, edgeNumbers[r.IntN(len(edgeNumbers))])
		case protowire.BytesType:
			f2.value = mutated(r, f.value, depth+1)
		}
		all = append(all, f2)
	default: // with an unknown field before it
		return append(append(join(all[:i]), randomField(r)...), join(all[i:])...)
	}
	return join(all)
}

// randomField is a field that may be of any type, and broken.
func randomField(r *rand.Rand) []byte {
	number := edgeFields[r.IntN(len(edgeFields))]
	typ := protowire.Type(r.IntN(8))
	b := protowire.AppendTag(nil, number, typ)
	switch typ {
	case protowire.VarintType:
		return protowire.AppendVarint(b, edgeNumbers[r.IntN(len(edgeNumbers))])
	case protowire.BytesType:
		return protowire.AppendBytes(b, []byte(randomText(r)))
	case protowire.Fixed32Type:
		return append(b, 1, 2, 3, 4)
	case protowire.Fixed64Type:
		return append(b, 1, 2, 3, 4, 5, 6, 7, 8)
	case protowire.StartGroupType:
		b = protowire.AppendVarint(protowire.AppendTag(b, 1, protowire.VarintType), 7)
		if r.IntN(2) == 0 {
			b = protowire.AppendTag(b, number, protowire.EndGroupType)
		}
	}
	return b
}

// What protobuf says about fields that come twice holds for the reader, too.
func TestFieldsThatComeTwice(t *testing.T) {
	join := func(fields ...[]byte) []byte { return bytes.Join(fields, nil) }
	tests := []struct {
		name  string
		event []byte
		want  conversation.EventBody // nil: refused as too new
	}{
		{"the last one counts", message(13, join(message(1, []byte("a")), message(1, []byte("b")))), conversation.SessionClosed{Reason: "b"}},
		{"an unknown number that is corrected", message(14, join(number(5, 99), number(5, 1))), conversation.MessageAccepted{Disposition: 1}},
		{"a known number that is spoilt", message(14, join(number(5, 1), number(5, 99))), nil},
		{"a body in two pieces", join(message(15, message(1, []byte("m1"))), message(15, message(2, []byte("x")))), conversation.MessageEdited{Message: "m1", Text: "x"}},
		{"corrected in the second piece", join(message(14, number(5, 99)), message(14, number(5, 1))), conversation.MessageAccepted{Disposition: 1}},
		{"not corrected in the second piece", join(message(14, number(5, 99)), message(14, number(6, 1))), nil},
		{"a duration that is corrected", message(29, join(number(4, 1<<62), number(4, 7))), conversation.ToolFinished{Took: 7 * time.Millisecond}},
		{"a list that is not corrected", message(22, join(number(4, 99), number(4, 1))), nil},
		{"two bodies", join(message(14, number(5, 99)), message(13, nil)), conversation.SessionClosed{}},
		{"a failure in two pieces", message(19, join(message(6, message(1, []byte("internal"))), message(6, message(2, []byte("x"))))),
			conversation.TaskStatusChanged{Error: &conversation.Failure{Code: "internal", Message: "x"}}},
		{"a list", message(22, join(message(4, []byte{1, 2}), number(4, 3))), conversation.StepFinished{Decisions: []conversation.Decision{1, 2, 3}}},
		{"an override", message(11, join(message(5, join(message(1, []byte("k")), message(2, []byte("1")))), message(5, message(1, []byte("k"))))),
			conversation.SessionCreated{Policy: conversation.Overrides{"k": nil}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := handmade(test.event)
			agree(t, b, DecodeRecord, oracleRecord)
			r, err := DecodeRecord(b)
			switch {
			case test.want == nil:
				if !errors.Is(err, conversation.ErrTooNew) {
					t.Errorf("got %+v, %v", r, err)
				}
			case err != nil || !reflect.DeepEqual(r.Events[0].Body, test.want):
				t.Errorf("got %+v, %v; want %+v", r, err, test.want)
			}
		})
	}
}

// A small input cannot make the reader take much memory.
func TestHostileBytesTakeLittleMemory(t *testing.T) {
	const size = 1 << 18
	fill := func(unit ...byte) []byte { return bytes.Repeat(unit, size/len(unit)) }
	nested := []byte{}
	for range 20_000 { // groups in groups, to be passed over
		nested = protowire.AppendTag(nested, 99, protowire.StartGroupType)
	}
	inputs := map[string][]byte{
		"empty events":           append([]byte{format}, fill(0x12, 0)...),
		"the smallest events":    append([]byte{format}, fill(0x12, 2, 0x6a, 0)...),
		"items":                  handmade(message(22, fill(0x52, 0))),
		"results":                handmade(message(22, fill(0x5a, 0))),
		"decisions":              handmade(message(22, message(4, fill(1)))),
		"unknown decisions":      handmade(message(22, message(4, fill(99)))),
		"messages of a step":     handmade(message(21, fill(0x22, 0))),
		"overrides":              handmade(message(11, fill(0x2a, 0))),
		"failures":               handmade(message(19, fill(0x32, 0))),
		"groups":                 append([]byte{format}, nested...),
		"a length beyond memory": append([]byte{format, 0x12}, protowire.AppendVarint(nil, math.MaxInt64)...),
	}
	for name, b := range inputs {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := DecodeRecord(b)
			runtime.ReadMemStats(&after)
			if took := after.TotalAlloc - before.TotalAlloc; took > 400*size {
				t.Errorf("%d bytes of input took %d bytes of memory (%v)", len(b), took, err)
			} else {
				t.Logf("%.1f bytes of memory for a byte (%.60v)", float64(took)/float64(len(b)), err)
			}
			agree(t, b, DecodeRecord, oracleRecord)
		})
	}
}

// benchmarkRecords are what the benchmarks read and write.
func benchmarkRecords() map[string]conversation.Record {
	all := conversation.Record{ID: "all"}
	for i, body := range samples() {
		all.Events = append(all.Events, conversation.Event{Seq: conversation.Seq(i + 1), At: sampleTime, Task: "t1-abc", Body: body})
	}
	return map[string]conversation.Record{"first commit": sampleRecord(), "one of each": all}
}

// The codec beside the generated code, in one run.
func BenchmarkRead(b *testing.B) {
	for name, record := range benchmarkRecords() {
		stored := AppendRecord(nil, record)
		for _, by := range []struct {
			name   string
			decode func([]byte) (conversation.Record, error)
		}{{"by hand", DecodeRecord}, {"generated", oracleRecord}} {
			b.Run(name+"/"+by.name, func(b *testing.B) {
				b.SetBytes(int64(len(stored)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := by.decode(stored); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// The generated code is given messages that are built already, so that the
// copying of events into them does not count.
func BenchmarkWrite(b *testing.B) {
	for name, record := range benchmarkRecords() {
		stored := AppendRecord(nil, record)
		var message pb.Record
		if err := proto.Unmarshal(stored[1:], &message); err != nil {
			b.Fatal(err)
		}
		var buffer []byte
		b.Run(name+"/by hand", func(b *testing.B) {
			b.SetBytes(int64(len(stored)))
			b.ReportAllocs()
			for b.Loop() {
				buffer = AppendRecord(buffer[:0], record)
			}
		})
		b.Run(name+"/generated", func(b *testing.B) {
			b.SetBytes(int64(len(stored)))
			b.ReportAllocs()
			for b.Loop() {
				var err error
				if buffer, err = (proto.MarshalOptions{Deterministic: true}).MarshalAppend(buffer[:0], &message); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
