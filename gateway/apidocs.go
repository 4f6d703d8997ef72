package gateway

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
)

// The documents of the protocol, one for HTTP, one for WebSockets. They are
// written by hand; contract_test.go holds them against the server.
//
//go:embed openapi.yaml asyncapi.yaml
var apiDocs embed.FS

// apiDoc is one of the documents as a file to be served. The names are those of
// the embedded files, so a failure is a mistake in this file.
func apiDoc(name string) pageFile {
	data, err := apiDocs.ReadFile(name)
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256(data)
	return pageFile{data: data, kind: "application/yaml", tag: `"` + hex.EncodeToString(sum[:8]) + `"`}
}
