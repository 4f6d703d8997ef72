package service

import "context"

// Inlet takes what a chat platform brings by HTTP. It checks the platform's signature, and
// answers when what follows from it is durable.
type Inlet func(ctx context.Context, r InletRequest) InletAnswer

// InletRequest is a request of a platform. It is valid until the Inlet returns.
type InletRequest struct {
	ContentType string
	Header      func(name string) string
	Body        []byte
}

// InletAnswer is what the platform is answered.
type InletAnswer struct {
	Status      int
	ContentType string // "" = none
	Body        []byte
}
