package main

import (
	"io"
	"log/slog"
)

// newLogger writes one JSON object per line.
func newLogger(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level}))
}
