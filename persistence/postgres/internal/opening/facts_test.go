package opening

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
)

// Servers that are not at hand.
func TestServersThatAreTooOld(t *testing.T) {
	c, err := Config("postgres://me:open-sesame-7@db.example:5433/chat")
	if err != nil {
		t.Fatal(err)
	}
	for number, code := range map[int]Code{90624: TooOld, 130011: TooOld, 140000: "", 180001: ""} {
		err := facts{number: number}.refusal(c)
		r := new(Refusal)
		if errors.As(err, &r) != (code != "") || r.Code != code {
			t.Errorf("version %d: %v, want %q", number, err, code)
		}
		if code != "" && (!strings.Contains(err.Error(), "db.example:5433") || strings.Contains(err.Error(), "sesame")) {
			t.Errorf("version %d: %v", number, err)
		}
	}
}

// Only what nobody has to mend is worth waiting for.
func TestWhatMayPass(t *testing.T) {
	for code, want := range map[Code]bool{Unreachable: true, Busy: true, Standby: true, Denied: false, Foreign: false, TooNew: false, Pending: false, BadDSN: false} {
		if got := (&Refusal{Code: code}).MayPass(); got != want {
			t.Errorf("%s may pass: %v", code, got)
		}
	}
}

// Every code is explained to those who run the database.
func TestCodesAreDocumented(t *testing.T) {
	source, err := os.ReadFile("refusal.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../../../docs/POSTGRES.md")
	if err != nil {
		t.Fatal(err)
	}
	codes := regexp.MustCompile(`"(postgres_\w+)"`).FindAllStringSubmatch(string(source), -1)
	if len(codes) < 10 {
		t.Fatalf("found %d codes", len(codes))
	}
	for _, c := range codes {
		if !strings.Contains(string(page), "| `"+c[1]+"` |") {
			t.Errorf("docs/POSTGRES.md does not explain %s", c[1])
		}
	}
}
