// Package refusal reads how a server says no: in a frame, and in an answer of HTTP.
package refusal
