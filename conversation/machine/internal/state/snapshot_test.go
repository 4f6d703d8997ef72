package state

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// A snapshot is stored by the names of these fields, of types of package
// conversation among them. A field that is renamed is lost from every stored
// snapshot without an error: give it a tag with its old name, or raise
// snapshotVersion, which has all logs read again. The file is rewritten by hand.
func TestSnapshotFields(t *testing.T) {
	var got []string
	fields(reflect.TypeFor[State](), "", &got)
	slices.Sort(got)
	want, err := os.ReadFile("testdata/snapshot_fields.txt")
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
			t.Errorf("%s is new: add it to testdata/snapshot_fields.txt, and think of snapshots without it", name)
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
