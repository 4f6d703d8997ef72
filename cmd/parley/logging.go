package main

import (
	"io"
	"log/slog"
	"os"

	"github.com/lmittmann/tint"

	"parley/cmd/parley/internal/config"
)

// newLogger is the program's log on w: text for people at a terminal, JSON for
// everything else, unless log.format says otherwise.
func newLogger(w io.Writer, c config.Log) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Level)); err != nil {
		level = slog.LevelInfo
	}
	terminal := isTerminal(w)
	if c.Format == "text" || (c.Format == "auto" && terminal) {
		return slog.New(tint.NewTextHandler(w, &tint.Options{Level: level, TimeFormat: "15:04:05.000", NoColor: !terminal}))
	}
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: plainDurations}))
}

// plainDurations writes durations as the configuration has them, "10s", not in nanoseconds.
func plainDurations(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
