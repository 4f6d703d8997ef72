package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"parley/conversation"
	"parley/conversation/access"
	"parley/conversation/attached"
	"parley/conversation/wire/internal/pb"
)

// commands has one value of each command that crosses between nodes.
func commands() []conversation.Command {
	return []conversation.Command{
		conversation.Create{}, conversation.Say{}, conversation.Answer{}, conversation.Reply{}, conversation.Edit{},
		conversation.Withdraw{}, conversation.Move{}, conversation.Cancel{}, conversation.Update{}, conversation.Close{},
		conversation.Seen{}, conversation.Clear{}, conversation.AddPart{}, conversation.HandOut{}, conversation.RuntimeSays{},
		conversation.Mark{},
	}
}

// older is a command without what gives it another number.
func older(c conversation.Command) conversation.Command {
	if say, ok := c.(conversation.Say); ok {
		say.Files, say.TraceParent = nil, ""
		return say
	}
	if update, ok := c.(conversation.Update); ok {
		update.Agent = ""
		return update
	}
	return c
}

// set gives every field a value that is not zero, the same one each time.
func set(v reflect.Value, name string) {
	switch v.Type() {
	case reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(sampleTime))
		return
	case reflect.TypeFor[time.Duration]():
		v.SetInt(int64(1500 * time.Millisecond))
		return
	case reflect.TypeFor[conversation.Overrides]():
		v.Set(reflect.ValueOf(conversation.Overrides{"inbox.mode": json.RawMessage(`"queue"`), "task.max_steps": nil}))
		return
	case reflect.TypeFor[map[conversation.UserID]access.Role]():
		v.Set(reflect.ValueOf(map[conversation.UserID]access.Role{"bob": access.Writer, "eve": access.None}))
		return
	case reflect.TypeFor[*conversation.Duplicate](), reflect.TypeFor[error]():
		return // of the node that decides, or of its log
	}
	if e, ok := enums[v.Type()]; ok {
		v.SetUint(uint64(e.last))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; name != "NextFree" { // a hint, as Duplicate is
				set(v.Field(i), name)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		set(v.Elem(), name)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			set(v.Index(i), fmt.Sprint(name, i))
		}
	case reflect.String:
		v.SetString("the " + name)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(-7)
	default:
		v.SetUint(300)
	}
}

// full is a value with every field set.
func full[T any](v T) T {
	p := reflect.New(reflect.TypeOf(v)).Elem()
	set(p, "value")
	return p.Interface().(T)
}

// filled is a random value.
func filled[T any](t *testing.T, seed uint64, v T) T {
	p := reflect.New(reflect.TypeOf(v)).Elem()
	fill(t, rand.New(rand.NewPCG(seed, 14)), p)
	return clean(p).Interface().(T)
}

// clean takes out what does not cross.
func clean(v reflect.Value) reflect.Value {
	for _, name := range []string{"Duplicate", "Err"} {
		if v.Kind() != reflect.Struct {
			break
		}
		if f := v.FieldByName(name); f.IsValid() && (f.Kind() == reflect.Pointer || f.Kind() == reflect.Interface) {
			f.SetZero()
		}
	}
	if v.Type() == reflect.TypeFor[conversation.AddPart]() {
		v.FieldByName("NextFree").SetZero()
	}
	return v
}

// What crosses between nodes of two versions is the same bytes: these never change.
func TestPeerGolden(t *testing.T) {
	for _, c := range commands() {
		c = full(c)
		golden(t, "command_"+c.Name(), AppendCommand, DecodeCommand, older(c), &pb.Command{})
	}
	withFiles := full(conversation.Say{})
	withFiles.TraceParent = ""
	golden[conversation.Command](t, "command_send_with_files", AppendCommand, DecodeCommand, withFiles, &pb.Command{})
	golden(t, "command_send_with_trace", AppendCommand, DecodeCommand, full[conversation.Command](conversation.Say{}), &pb.Command{})
	golden(t, "command_update_of_agent", AppendCommand, DecodeCommand, full[conversation.Command](conversation.Update{}), &pb.Command{})
	golden(t, "receipt", AppendReceipt, DecodeReceipt, full(conversation.Receipt{}), &pb.Receipt{})
	refused := full(conversation.Error{})
	golden(t, "refusal", AppendError, DecodeError, &refused, &pb.Refusal{})
	view := full(conversation.View{})
	golden(t, "view_with_caller", AppendView, DecodeView, view, &pb.View{})
	for i := range view.Calls {
		view.Calls[i].Caller = false
	}
	golden(t, "view", AppendView, DecodeView, view, &pb.View{})
	for _, e := range []conversation.Ephemeral{full(conversation.Delta{}), full(conversation.DraftDropped{}), full(conversation.Progress{}), full(conversation.Thinking{})} {
		golden(t, fmt.Sprintf("shown_%s", reflect.TypeOf(e).Name()), AppendEphemeral, DecodeEphemeral, e, &pb.Shown{})
	}
	golden(t, "claimed", AppendClaimed, DecodeClaimed, full([]conversation.HandedOut{}), &pb.Claimed{})
	golden(t, "claimable", AppendClaimable, DecodeClaimable, full(&conversation.Claimable{}), &pb.Claimable{})
}

// Random values come back, and the generated code of the schema writes the same bytes again.
func TestPeerComesBack(t *testing.T) {
	for seed := range uint64(300) {
		for _, c := range commands() {
			again(t, AppendCommand, DecodeCommand, filled(t, seed, c), &pb.Command{})
		}
		again(t, AppendReceipt, DecodeReceipt, filled(t, seed, conversation.Receipt{}), &pb.Receipt{})
		again(t, AppendView, DecodeView, filled(t, seed, conversation.View{}), &pb.View{})
		again(t, AppendClaimed, DecodeClaimed, filled(t, seed, []conversation.HandedOut(nil)), &pb.Claimed{})
		for _, e := range []conversation.Ephemeral{conversation.Delta{}, conversation.DraftDropped{}, conversation.Progress{}, conversation.Thinking{}} {
			again(t, AppendEphemeral, DecodeEphemeral, filled(t, seed, e), &pb.Shown{})
		}
	}
	again(t, AppendClaimable, DecodeClaimable, nil, &pb.Claimable{})
	again(t, AppendError, DecodeError, &conversation.Error{Code: conversation.NotFound}, &pb.Refusal{})
}

// again encodes and decodes, and has the generated code do the same.
func again[T any](t *testing.T, add func([]byte, T) []byte, decode func([]byte) (T, error), want T, message proto.Message) {
	t.Helper()
	b := add(nil, want)
	got, err := decode(b)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("came back as %+v, %v; was %+v", got, err, want)
	}
	if err := proto.Unmarshal(b[1:], message); err != nil {
		t.Fatal(err)
	}
	if len(message.ProtoReflect().GetUnknown()) > 0 {
		t.Fatalf("fields of %+v that the schema does not have", want)
	}
	other, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	if err != nil || len(other) != len(b)-1 {
		t.Fatalf("the schema has %d bytes for %+v, not %d (%v)", len(other), want, len(b)-1, err)
	}
}

// A command of a newer program is refused, one cut short is damaged, and one that a session
// is told by its own node only does not cross.
func TestPeerRefusals(t *testing.T) {
	say := AppendCommand(nil, conversation.Say{Text: "hello"})
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"empty":     {nil, ErrCorrupt},
		"cut":       {say[:len(say)-1], ErrCorrupt},
		"no fields": {say[:1], conversation.ErrTooNew},
		"unknown":   {[]byte{format, 0x82, 0x7d, 0}, conversation.ErrTooNew},
		"a mode":    {[]byte{format, 0x12, 2, 0x38, 99}, conversation.ErrTooNew},
		"a format":  {[]byte{9}, conversation.ErrTooNew},
	} {
		if got, err := DecodeCommand(c.b); !errors.Is(err, c.want) || got != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if Crosses(conversation.Tick{}) || !Crosses(conversation.Say{}) {
		t.Error("what crosses is not what is said to")
	}
	if e, err := DecodeEphemeral([]byte{format, 0x82, 0x7d, 0}); e != nil || err != nil {
		t.Errorf("an ephemeral thing of a newer program: %v, %v", e, err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a command that does not cross was encoded")
		}
	}()
	AppendCommand(nil, conversation.Tick{})
}

// What an older program would pass over and yet say that it is done has a number that it
// does not know; without it the command is the one it knows.
func TestWhatMustNotBePassedOver(t *testing.T) {
	hash := attached.HashOf(nil)
	for number, cs := range map[protowire.Number][]conversation.Command{
		2:  {conversation.Say{Text: "look"}},
		9:  {conversation.Update{By: "ann", Unnamed: true}},
		17: {conversation.Say{Text: "look", Files: []attached.File{{Hash: hash}}}, full(conversation.Say{})},
		18: {conversation.Update{By: "ann", Agent: "tutor"}, full(conversation.Update{})},
	} {
		for _, c := range cs {
			if got, _, _ := protowire.ConsumeTag(AppendCommand(nil, c)[1:]); got != number {
				t.Errorf("%+v has the number %d, want %d", c, got, number)
			}
		}
	}
}

// No bytes of a peer end the node that reads them.
func FuzzPeer(f *testing.F) {
	for _, c := range commands() {
		f.Add(AppendCommand(nil, full(c)))
	}
	f.Add(AppendView(nil, full(conversation.View{})))
	f.Add(AppendReceipt(nil, full(conversation.Receipt{})))
	f.Add(AppendEphemeral(nil, full(conversation.Progress{})))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := DecodeCommand(b); err == nil {
			AppendCommand(nil, c)
		}
		_, _ = DecodeView(b)
		_, _ = DecodeReceipt(b)
		_, _ = DecodeError(b)
		_, _ = DecodeEphemeral(b)
		_, _ = DecodeClaimed(b)
		_, _ = DecodeClaimable(b)
	})
}
