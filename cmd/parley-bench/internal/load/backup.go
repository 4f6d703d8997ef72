package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"parley/cmd/parley-bench/internal/report"
)

// Backup is the command that measures what a backup costs those who use the server
// while it is made; its fields are its flags.
type Backup struct {
	Server   string        `help:"The server's program (default: it is built)." placeholder:"PATH"`
	Clients  int           `help:"Clients at work, each in its own session." default:"200"`
	Duration time.Duration `help:"Of each measurement." default:"8s"`
	Pairs    int           `help:"Measurements with a backup, and as many without." default:"4"`
}

// Run measures and prints a table to standard output.
func (b *Backup) Run(ctx context.Context) error { return b.run(ctx, os.Stdout) }

func (b *Backup) run(ctx context.Context, out io.Writer) error {
	path, cleanup, err := BuildServer(b.Server)
	if err != nil {
		return err
	}
	defer cleanup()
	dir, err := os.MkdirTemp("", "parley-bench-backup-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s, err := StartServer(path, filepath.Join(dir, "data"))
	if err != nil {
		return err
	}
	if err := b.measure(ctx, s, dir, out); err != nil {
		s.Kill()
		return err
	}
	return s.Stop()
}

// measure takes turns with and without a backup, against the same server: its
// store grows from row to row, so that each row stands beside its neighbours.
func (b *Backup) measure(ctx context.Context, s *Server, dir string, out io.Writer) error {
	if _, _, err := turns(loop{workers: b.Clients, d: b.Duration}, s.Addr); err != nil { // the store is not empty, and warm
		return err
	}
	fmt.Fprintf(out, "\n### Backup: %d clients at work; it begins after a quarter of each measurement\n\n", b.Clients)
	fmt.Fprintf(out, "| backup | turns/s | p50 | p99 | p99.9 | it took | records | MB |\n|---|---:|---:|---:|---:|---:|---:|---:|\n")
	for i := range 2 * b.Pairs {
		if err := ctx.Err(); err != nil {
			return err
		}
		type made struct {
			report backupReport
			err    error
		}
		backup := make(chan made, 1)
		if i%2 == 1 {
			begin := time.AfterFunc(b.Duration/4, func() {
				report, err := s.backUp(ctx, filepath.Join(dir, fmt.Sprintf("copy-%d", i)))
				backup <- made{report, err}
			})
			defer begin.Stop()
		}
		r, _, err := turns(loop{workers: b.Clients, d: b.Duration}, s.Addr)
		if err != nil {
			return err
		}
		row := fmt.Sprintf("%.0f | %s | %s | %s", r.perSecond(), report.Short(r.percentile(0.5)), report.Short(r.percentile(0.99)), report.Short(r.percentile(0.999)))
		if i%2 == 0 {
			fmt.Fprintf(out, "| no | %s | – | – | – |\n", row)
			continue
		}
		done := <-backup
		if done.err != nil {
			return done.err
		}
		fmt.Fprintf(out, "| yes | %s | %.2f s | %d | %.0f |\n", row, done.report.Seconds, done.report.Records, float64(done.report.Bytes)/1e6)
	}
	return nil
}

// backupReport is what the server says of a backup.
type backupReport struct {
	Records int64   `json:"records"`
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"`
}

// backUp has the server make a backup in dest.
func (s *Server) backUp(ctx context.Context, dest string) (report backupReport, err error) {
	body, err := json.Marshal(map[string]string{"dest": dest})
	if err != nil {
		return report, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.Addr+"/admin/backup", strings.NewReader(string(body)))
	if err != nil {
		return report, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusCreated {
		err = fmt.Errorf("POST /admin/backup: %s: %.200s", response.Status, answer)
	}
	if err != nil {
		return report, err
	}
	return report, json.Unmarshal(answer, &report)
}
