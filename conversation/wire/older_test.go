package wire

import (
	"bytes"
	"encoding/hex"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"parley/conversation"
)

// M-31: what a program of before receipts had evidence, parts were cut and runtimes
// had leases has stored is read by this one, each kind of event: the fields that came
// later are absent, so nothing is written that was not there, and mean what they
// meant then. The file is what that program wrote: never change it.
func TestRecordsOfAnOlderWriter(t *testing.T) {
	text, err := os.ReadFile("testdata/before_receipts.txt")
	if err != nil {
		t.Fatal(err)
	}
	later := map[string][]string{ // fields that program did not have
		"MessageResolved": {"Evidence"}, "PartialResponse": {"Guessed", "Cut"}, "Response": {"Guessed", "Cut"}, "Asked": {"About", "Call"},
		"SessionUpdated": {"Members", "Agent"}, "MessageAccepted": {"AuthorName", "Files"}, "CoverageNudge": {"Questions", "Form"}, "StepFinished": {"Stop"},
	}
	var kinds []string
	for line := range strings.Lines(string(text)) {
		kind, digits, _ := strings.Cut(strings.TrimSpace(line), " ")
		stored, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatal(err)
		}
		record, err := DecodeRecord(stored)
		if err != nil || len(record.Events) != 1 || record.Events[0].Body.Kind().String() != kind {
			t.Errorf("%s: %v, %+v", kind, err, record)
			continue
		}
		kinds = append(kinds, kind)
		body := reflect.ValueOf(record.Events[0].Body)
		for _, field := range later[body.Type().Name()] {
			if f := body.FieldByName(field); !f.IsValid() || !f.IsZero() {
				t.Errorf("%s: %s is not absent: %+v", kind, field, body)
			}
		}
		if again := AppendRecord(nil, record); !bytes.Equal(again, stored) {
			t.Errorf("%s: is written again as\n%x, not\n%x", kind, again, stored)
		}
	}
	for _, kind := range conversation.EventKinds() {
		isNew := kind == conversation.KindRuntimeStatus || kind == conversation.KindContextCleared
		if slices.Contains(kinds, kind.String()) == isNew {
			t.Errorf("%s is in the file: %v", kind, !isNew)
		}
	}
}
