package rooms

import (
	"bytes"
	"compress/gzip"
	"io"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
)

func TestRoomOf(t *testing.T) {
	for _, c := range []struct {
		stack []string // the innermost first
		room  string
	}{
		{[]string{"runtime.mallocgc", "parley/conversation/machine.(*decision).say", "parley/actors.(*session).Receive"}, "conversation/machine"},
		{[]string{"runtime.memmove", "parley/actors/internal/mail.(*Box).Put", "github.com/asynkron/protoactor-go/actor.(*x).run"}, "actors"},
		{[]string{"parley/conversation/option.of[parley/conversation/policy.Rules]", "parley/actors.New"}, "conversation/option"},
		{[]string{"github.com/cockroachdb/pebble/v2/internal/arenaskl.(*Skiplist).findSpliceForLevel", "github.com/cockroachdb/pebble/v2.(*memTable).apply", "parley/persistence/pebble.(*DB).apply"}, "Pebble: memory table"},
		{[]string{"github.com/cockroachdb/pebble/v2.(*Batch).Set", "parley/persistence/pebble.(*DB).fill"}, "Pebble: else"},
		{[]string{"github.com/cockroachdb/pebble/v2/sstable.x", "github.com/cockroachdb/pebble/v2.(*DB).flush1", "runtime.goexit"}, "Pebble: flushes and compactions"},
		{[]string{"internal/runtime/syscall/linux.Syscall6", "syscall.write", "syscall.Write", "net.(*netFD).Write", "parley/gateway/ws.(*connection).write"}, "system: write (sockets)"},
		{[]string{"internal/runtime/syscall/linux.Syscall6", "syscall.read", "net.(*netFD).Read", "github.com/fasthttp/websocket.x"}, "system: read (sockets)"},
		{[]string{"internal/runtime/syscall/linux.Syscall6", "syscall.write", "os.(*File).Write", "github.com/cockroachdb/pebble/v2/record.x"}, "system: write (files)"},
		{[]string{"internal/runtime/syscall/linux.Syscall6", "golang.org/x/sys/unix.Fdatasync", "github.com/cockroachdb/pebble/v2/record.x"}, "system: sync of the log"},
		{[]string{"runtime.scanobject", "runtime.gcDrain", "runtime.gcBgMarkWorker"}, "runtime: garbage collector"},
		{[]string{"runtime.futex", "runtime.notesleep", "runtime.mPark", "runtime.findRunnable", "runtime.schedule"}, "runtime: threads sleep and wake"},
		{[]string{"runtime.runqgrab", "runtime.findRunnable", "runtime.schedule"}, "runtime: scheduler"},
		{[]string{"github.com/asynkron/protoactor-go/actor.(*defaultMailbox).run"}, "actor library"},
		{[]string{"runtime.newobject", "main.main"}, "cmd/parley"},
		{[]string{"encoding/json.Marshal"}, "other"},
		{nil, "other"},
	} {
		if got := RoomOf(c.stack); got != c.room {
			t.Errorf("%q is in %q, want %q", c.stack, got, c.room)
		}
	}
}

// A profile that Go writes is read whole: this very goroutine is in it.
func TestParse(t *testing.T) {
	var b bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&b, 0); err != nil {
		t.Fatal(err)
	}
	p, err := Parse(b.Bytes())
	if err != nil || !slices.Equal(p.Types, []string{"goroutine/count"}) {
		t.Fatalf("%+v, %v", p, err)
	}
	if !slices.ContainsFunc(p.Samples, func(s Sample) bool {
		return len(s.Values) == 1 && s.Values[0] >= 1 && slices.ContainsFunc(s.Stack, func(f string) bool { return strings.HasSuffix(f, "rooms.TestParse") })
	}) {
		t.Errorf("no sample of this test in %+v", p.Samples)
	}
	split, ok := p.Split("goroutine/count")
	if sum := split["other"]; !ok || len(split) == 0 || sum < 0 {
		t.Errorf("%v, %v", split, ok)
	}
	if _, ok := p.Split("cpu/nanoseconds"); ok {
		t.Error("it has what it has not")
	}
}

func FuzzParse(f *testing.F) {
	var b bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&b, 0); err != nil {
		f.Fatal(err)
	}
	r, err := gzip.NewReader(&b)
	if err != nil {
		f.Fatal(err)
	}
	raw, err := io.ReadAll(r)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte{0x1f, 0x8b})
	f.Fuzz(func(_ *testing.T, b []byte) {
		_, _ = Parse(b) // must come back, without a panic
	})
}
