// Package fields reads and writes the fields of the small protobuf messages that nodes send to
// each other. A reader leaves out the fields that it does not know.
package fields
