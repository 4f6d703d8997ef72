package chat

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	parley "parley/clients/go"
)

// A file goes with a message.
type file struct {
	name, kind string
	content    []byte
}

// readFile reads what is to be attached. A directory or a device is none.
func readFile(path string) (file, error) {
	info, err := os.Stat(path)
	var why *fs.PathError
	switch {
	case errors.As(err, &why):
		return file{}, fmt.Errorf("%s: %w", line(path), why.Err)
	case err != nil:
		return file{}, err
	case !info.Mode().IsRegular():
		return file{}, fmt.Errorf("%s: only a regular file can be attached", line(path))
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return file{}, err
	}
	name := filepath.Base(path)
	return file{name, kindOf(name, content), content}, nil
}

// home is a path as a shell would have it: ~ is the home directory.
func home(path string) string {
	rest, ours := strings.CutPrefix(path, "~")
	if dir, err := os.UserHomeDir(); ours && err == nil && (rest == "" || rest[0] == '/' || rest[0] == filepath.Separator) {
		return dir + rest
	}
	return path
}

// kindOf is the type of a file: of a picture by how it begins, of a text by its name.
func kindOf(name string, content []byte) string {
	kind := http.DetectContentType(content)
	if strings.HasPrefix(kind, "image/") {
		return kind
	}
	if !utf8.Valid(content) || bytes.IndexByte(content, 0) >= 0 {
		return "application/octet-stream" // which a server refuses, with its reason
	}
	switch strings.ToLower(filepath.Ext(name)) {
	case ".json":
		if json.Valid(content) {
			return "application/json"
		}
	case ".md", ".markdown":
		return "text/markdown"
	case ".csv":
		return "text/csv"
	case ".html", ".htm":
		return "text/html"
	}
	return "text/plain"
}

// upload stores files in a session.
func upload(ctx context.Context, client *parley.Client, session string, files []file) ([]parley.Attachment, error) {
	var all []parley.Attachment
	for _, f := range files {
		made, err := client.Upload(ctx, session, f.name, f.kind, f.content)
		if err != nil {
			var refused *parley.Error
			if errors.As(err, &refused) {
				return nil, &parley.Error{Code: refused.Code, Message: line(f.name) + ": " + refused.Message, Retryable: refused.Retryable}
			}
			return nil, fmt.Errorf("%s: %w", line(f.name), err)
		}
		all = append(all, made)
	}
	return all, nil
}

// withFiles is a text with a line for each file that goes with it.
func withFiles(text string, files []parley.Attachment) string {
	lines := make([]string, 0, len(files)+1)
	if text != "" {
		lines = append(lines, text)
	}
	for _, f := range files {
		lines = append(lines, fmt.Sprintf("[file %s, %s]", line(f.Name), sized(f.Size)))
	}
	return strings.Join(lines, "\n")
}

// sized is a number of bytes for people.
func sized(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d bytes", n)
	case n < 1000_000:
		return fmt.Sprintf("%.1f kB", float64(n)/1000)
	default:
		return fmt.Sprintf("%.1f MB", float64(n)/1000_000)
	}
}
