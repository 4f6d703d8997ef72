package protocol

import "embed"

// The documents of the protocol, one for HTTP, one for WebSockets. They are
// written by hand; tests hold them against the server.
//
//go:embed openapi.yaml asyncapi.yaml
var documents embed.FS

// Document is one of the documents: "openapi.yaml" or "asyncapi.yaml". The names
// are those of the embedded files, so a failure is a mistake of the caller.
func Document(name string) []byte {
	data, err := documents.ReadFile(name)
	if err != nil {
		panic(err)
	}
	return data
}
