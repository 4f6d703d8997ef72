package state

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"parley/conversation"
)

// A snapshot is stored by the names of these fields, of types of package
// conversation among them. A field that is renamed is lost from every stored
// snapshot without an error: give it a tag with its old name, or raise
// snapshotVersion, which has all logs read again. M-31: a new field needs a new
// version as well: an older program would drop it and write the snapshot back
// without it. The file is written by hand, one for each version: never change that
// of a version that was released.
func TestSnapshotFields(t *testing.T) {
	var got []string
	fields(reflect.TypeFor[State](), "", &got)
	slices.Sort(got)
	want, err := os.ReadFile(fmt.Sprintf("testdata/snapshot_fields_%d.txt", snapshotVersion))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(string(want)) {
		if !slices.Contains(got, name) {
			t.Errorf("a stored snapshot has %s, which State does not read any more", name)
		}
	}
	for _, name := range got {
		if !slices.Contains(strings.Fields(string(want)), name) {
			t.Errorf("%s is new: raise snapshotVersion and write testdata/snapshot_fields_%d.txt with it", name, snapshotVersion+1)
		}
	}
}

// A program of before writes snapshots without what came since, members among them. Where it
// has served a session in between, its snapshot is of no use: the log has the members.
func TestSnapshotOfAnOlderProgram(t *testing.T) {
	key := conversation.SessionKey{Tenant: "t", Session: "s"}
	st := New(key)
	mine, err := st.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(key, mine); err != nil {
		t.Error(err)
	}
	for version := range snapshotVersion {
		older := strings.Replace(string(mine), fmt.Sprintf(`"Version":%d`, snapshotVersion), fmt.Sprintf(`"Version":%d`, version), 1)
		if _, err := Restore(key, []byte(older)); err == nil || older == string(mine) {
			t.Errorf("a snapshot of version %d is believed: %s", version, older)
		}
	}
}

// fields gathers the names by which JSON writes a type, as dotted paths.
func fields(of reflect.Type, path string, all *[]string) {
	switch of.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		fields(of.Elem(), path, all)
		return
	case reflect.Struct:
	default:
		*all = append(*all, path)
		return
	}
	if of.Implements(reflect.TypeFor[json.Marshaler]()) { // it writes itself
		*all = append(*all, path)
		return
	}
	for i := range of.NumField() {
		f := of.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		fields(f.Type, strings.TrimPrefix(path+"."+name, "."), all)
	}
}
