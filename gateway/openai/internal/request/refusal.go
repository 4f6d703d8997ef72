package request

import (
	"net/http"

	"parley/conversation"
)

// Refusal is an error that the API has a code, a parameter or a status of its own for.
type Refusal struct {
	Status  int
	Code    string // "" = null
	Param   string // "" = null
	Message string
}

func (r *Refusal) Error() string { return r.Message }

// Refuse is a refusal of a parameter with the API's usual status.
func Refuse(param, code, message string) error {
	return &Refusal{Status: http.StatusBadRequest, Code: code, Param: param, Message: message}
}

// Unsupported refuses what would change the meaning of a request and cannot be done.
func Unsupported(param, message string) error {
	return Refuse(param, "unsupported_parameter", message)
}

// Excerpt is the beginning of what a client has sent, for a sentence about it.
func Excerpt(s string) string { return conversation.Excerpt(s, 40) }
