package cluster

import (
	"crypto/tls"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
)

// A certificate that comes back between the look at its file and the reading of it: the one of
// before is shown once more.
func TestCertificateThatComesBack(t *testing.T) {
	before := &tls.Certificate{}
	c := &ownCertificate{
		cert: filepath.Join(t.TempDir(), "cert"), log: slog.New(slog.DiscardHandler), read: before,
		stat: func(string) (os.FileInfo, error) { return nil, fs.ErrNotExist },
	}
	if got, err := c.get(); err != nil || got != before {
		t.Errorf("it shows %v, %v", got, err)
	}
	c.read = nil
	if _, err := c.get(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without one of before: %v", err)
	}
}
