package schema

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"
)

// Who takes something away says which programs cannot work with the rest.
func TestMigrationsExpandOrSayWhoIsTooOld(t *testing.T) {
	files, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	shrinks := regexp.MustCompile(`(?i)\b(drop|rename|set not null|alter column \w+ type|add constraint)\b`)
	comments := regexp.MustCompile(`(?m)--.*$`)
	for i, f := range files {
		text, err := fs.ReadFile(embedded, "migrations/"+f.name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), "-- +goose Up\n") || strings.Contains(string(text), "+goose Down") {
			t.Errorf("%s does not go up, or goes down", f.name)
		}
		sql := comments.ReplaceAllString(string(text), "")
		if shrinks.MatchString(sql) && !strings.Contains(sql, "update schema_oldest set version") {
			t.Errorf("%s takes something away: it must set schema_oldest", f.name)
		}
		if i > 0 && f.version != files[i-1].version+1 {
			t.Errorf("%s does not follow %s", f.name, files[i-1].name)
		}
	}
	if Newest() != files[len(files)-1].version {
		t.Errorf("the newest is %d", Newest())
	}
}
