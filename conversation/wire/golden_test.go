package wire

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"parley/conversation"
	"parley/conversation/wire/internal/pb"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew; a changed line breaks stored logs, so explain each in the commit")

// The golden files are stored bytes: every later program must read them, and the
// same value must give the same bytes on every node. M-08: a part is
// stored with its source and its index, which may be absent.
func TestGolden(t *testing.T) {
	t.Run("record", func(t *testing.T) {
		golden(t, "record", AppendRecord, DecodeRecord, sampleRecord(), &pb.Record{})
	})
	t.Run("task_row", func(t *testing.T) {
		golden(t, "task_row", AppendTaskRow, DecodeTaskRow, sampleTaskRow(), &pb.TaskRow{})
	})
	t.Run("summary", func(t *testing.T) {
		golden(t, "summary", AppendSummary, DecodeSummary, sampleSummary(), &pb.Summary{})
	})
	t.Run("head", func(t *testing.T) {
		golden(t, "head", AppendHead, DecodeHead, sampleHead(), &pb.HeadRow{})
	})
	bodies := map[conversation.EventKind]conversation.EventBody{}
	for _, body := range samples() {
		bodies[body.Kind()] = body
	}
	ofCaller := bodies[conversation.KindToolStarted].(conversation.ToolStarted)
	older := ofCaller
	older.Caller = false
	bodies[conversation.KindToolStarted] = older
	for _, kind := range conversation.EventKinds() {
		t.Run("event/"+kind.String(), func(t *testing.T) {
			if bodies[kind] == nil {
				t.Fatal("no sample")
			}
			golden(t, "event_"+kind.String(), AppendRecord, DecodeRecord, one(bodies[kind]), &pb.Record{})
		})
	}
	t.Run("event/tool_started of a caller", func(t *testing.T) {
		golden(t, "event_tool_started_of_caller", AppendRecord, DecodeRecord, one(ofCaller), &pb.Record{})
	})
}

// golden compares value and testdata/<name>.golden, both ways: a line of JSON for
// the reader of a diff, an empty line, the bytes in hexadecimal.
func golden[T any](t *testing.T, name string, add func([]byte, T) []byte, decode func([]byte) (T, error), value T, message proto.Message) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	b := add(nil, value)
	if *rewrite {
		write(t, file, readable(t, b, message)+"\n\n"+hexLines(b))
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (make it with -rewrite)", err)
	}
	text, digits, _ := strings.Cut(string(content), "\n\n")
	stored, err := hex.DecodeString(strings.Join(strings.Fields(digits), ""))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, stored) {
		t.Errorf("is encoded as\n%s, stored as\n%s", hexLines(b), hexLines(stored))
	}
	if got := readable(t, b, message); got != text {
		t.Errorf("reads\n%s\nwant\n%s", got, text)
	}
	got, err := decode(stored)
	if err != nil || !reflect.DeepEqual(got, value) {
		t.Errorf("stored bytes read as %+v, %v; want %+v", got, err, value)
	}
}

func readable(t *testing.T, b []byte, m proto.Message) string {
	t.Helper()
	if err := proto.Unmarshal(b[1:], m); err != nil {
		t.Fatal(err)
	}
	raw, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer // protojson's own white space differs between builds on purpose
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func hexLines(b []byte) string {
	var out strings.Builder
	for line := range slices.Chunk(b, 32) {
		fmt.Fprintf(&out, "%x\n", line)
	}
	return out.String()
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Stored numbers never change: each line of testdata/numbers.golden is a number
// that some log holds. -rewrite adds lines; it takes none away, for a number may
// only go when its message has a `reserved` line for it.
func TestGoldenNumbers(t *testing.T) {
	const file = "testdata/numbers.golden"
	content, err := os.ReadFile(file)
	if err != nil && !*rewrite {
		t.Fatal(err)
	}
	now := numbers()
	for _, n := range now {
		if was, ok := stored(content)[n.key]; ok && was != n.meaning {
			t.Errorf("%s was %s and is %s: stored numbers keep their meaning", n.key, was, n.meaning)
		}
	}
	for key, meaning := range stored(content) {
		is := slices.ContainsFunc(now, func(n storedNumber) bool { return n.key == key })
		if !is && !reserved(key) {
			t.Errorf("%s (%s) is gone and not reserved", key, meaning)
		}
	}
	if t.Failed() {
		return
	}
	if *rewrite {
		var out strings.Builder
		for _, n := range now {
			fmt.Fprintf(&out, "%s %s\n", n.key, n.meaning)
		}
		for _, line := range strings.Split(strings.TrimSpace(string(content)), "\n") {
			if key, _, _ := strings.Cut(line, " "); key != "" && reserved(key) {
				fmt.Fprintln(&out, line)
			}
		}
		write(t, file, out.String())
		return
	}
	for _, n := range now {
		if _, ok := stored(content)[n.key]; !ok {
			t.Errorf("%s (%s) is new: add it to %s with -rewrite", n.key, n.meaning, file)
		}
	}
}

// storedNumber is a line: "Event.1" "seq uint64", or "Via.1" "= websocket".
type storedNumber struct{ key, meaning string }

func numbers() []storedNumber {
	var out []storedNumber
	for _, file := range files() {
		for i := range file.Messages().Len() {
			m := file.Messages().Get(i)
			for j := range m.Fields().Len() {
				f := m.Fields().Get(j)
				kind := f.Kind().String()
				if f.Kind() == protoreflect.MessageKind {
					kind = string(f.Message().Name())
				}
				switch {
				case f.IsMap():
					kind = "map"
				case f.IsList():
					kind = "repeated " + kind
				case f.HasOptionalKeyword():
					kind = "optional " + kind
				}
				out = append(out, storedNumber{fmt.Sprintf("%s.%d", m.Name(), f.Number()), fmt.Sprintf("%s %s", f.Name(), kind)})
			}
		}
	}
	var constants []storedNumber
	for at, e := range enums {
		for n := uint8(0); e.name != nil && n <= e.last; n++ {
			constants = append(constants, storedNumber{fmt.Sprintf("conversation.%s.%d", at.Name(), n), fmt.Sprintf("= %q", e.name(n))})
		}
	}
	constants = append(constants,
		storedNumber{fmt.Sprintf("conversation.ItemKind.%d", conversation.ItemText), "= ItemText"},
		storedNumber{fmt.Sprintf("conversation.ItemKind.%d", conversation.ItemCall), "= ItemCall"})
	slices.SortFunc(constants, func(a, b storedNumber) int { return strings.Compare(a.key, b.key) })
	return append(out, constants...)
}

func files() []protoreflect.FileDescriptor {
	return []protoreflect.FileDescriptor{
		pb.File_conversation_wire_events_proto,
		pb.File_conversation_wire_store_proto,
	}
}

func stored(content []byte) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(string(content)) {
		key, meaning, _ := strings.Cut(strings.TrimSpace(line), " ")
		out[key] = meaning
	}
	return out
}

func reserved(key string) bool {
	var number protoreflect.FieldNumber
	name, digits, _ := strings.Cut(key, ".")
	if _, err := fmt.Sscan(digits, &number); err != nil {
		return false
	}
	for _, file := range files() {
		if m := file.Messages().ByName(protoreflect.Name(name)); m != nil && m.ReservedRanges().Has(number) {
			return true
		}
	}
	return false
}

// The number and the name of a body's field follow from the kind.
func TestBodyNumbersFollowTheKinds(t *testing.T) {
	bodies := (&pb.Event{}).ProtoReflect().Descriptor().Oneofs().ByName("body").Fields()
	for _, kind := range conversation.EventKinds() {
		f := bodies.ByNumber(protoreflect.FieldNumber(10 + kind))
		if f == nil {
			t.Errorf("%s: no field %d", kind, 10+kind)
			continue
		}
		if string(f.Name()) != kind.String() {
			t.Errorf("field %d is %s, want %s", f.Number(), f.Name(), kind)
		}
	}
	if bodies.Len() != len(conversation.EventKinds()) {
		t.Errorf("%d bodies for %d kinds", bodies.Len(), len(conversation.EventKinds()))
	}
	for _, body := range samples() {
		var record pb.Record
		if err := proto.Unmarshal(AppendRecord(nil, one(body))[1:], &record); err != nil {
			t.Fatal(err)
		}
		p := record.Events[0].ProtoReflect()
		f := p.WhichOneof(p.Descriptor().Oneofs().ByName("body"))
		if f.Number() != protoreflect.FieldNumber(10+body.Kind()) {
			t.Errorf("%s is written as field %d", body.Kind(), f.Number())
		}
	}
}
