package chaos

import (
	"os"
	"path/filepath"
)

// place tells every process where the server listens, by a file: it listens
// elsewhere after each start.
type place struct{ file string }

func (p *place) set(address string) error {
	next := p.file + ".next"
	if err := os.WriteFile(next, []byte(address), 0o600); err != nil {
		return err
	}
	return os.Rename(next, p.file)
}

func (p *place) address() string {
	b, err := os.ReadFile(filepath.Clean(p.file))
	if err != nil {
		return "127.0.0.1:1" // nobody is there yet
	}
	return string(b)
}
