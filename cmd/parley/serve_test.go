package main

import (
	"context"
	"strings"
	"testing"
	"time"
)

// The first signal ends a server that is still opening its store.
func TestStopWhileTheStoreOpens(t *testing.T) {
	m := NewMain()
	var out, errs syncBuffer
	m.Stdout, m.Stderr, m.Environ = &out, &errs, nil
	data := t.TempDir()
	if err := m.ParseFlags([]string{"serve", "--config", emptyConfig(t), "--listen", "127.0.0.1:0", "--data", data}); err != nil {
		t.Fatal(err)
	}
	opening, release := make(chan struct{}), make(chan struct{})
	m.Config.Store.FreeSpace = func(string) (free, total uint64, err error) {
		select {
		case <-opening:
		default:
			close(opening)
		}
		<-release
		return 1 << 40, 1 << 40, nil
	}
	ctx, signal := context.WithCancel(t.Context())
	defer signal()
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	<-opening
	signal()
	select {
	case err := <-ended:
		if err != nil { // the exit code would not be 0
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("it does not end")
	}
	if says := "stopped while the store in " + data + " was being opened"; strings.Count(errs.String(), says) != 1 {
		t.Errorf("it said %q", errs.String())
	}
	if out.String() != "" {
		t.Errorf("it announced %q", out.String())
	}
	// The abandoned opening ends and gives the directory up.
	close(release)
	m = NewMain()
	m.Stdout, m.Stderr, m.Environ = &out, &errs, nil
	for since := time.Now(); m.Execute(t.Context(), []string{"doctor", "--config", emptyConfig(t), "--data", data}) != exitOK; {
		if time.Since(since) > patience {
			t.Fatalf("the store is not free again: %s", out.String())
		}
	}
}
