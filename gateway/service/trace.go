package service

import "strings"

// TraceHeader is the header in which clients say to which trace of theirs a message
// belongs, as the W3C has it.
const TraceHeader = "Traceparent"

// TraceParent is the value of a TraceHeader, kept beyond its request; "" if it cannot be
// one. Who makes traces reads it closely.
func TraceParent(header string) string {
	if len(header) < 55 || len(header) > 128 {
		return ""
	}
	return strings.Clone(header)
}
