// Package form asks a user for the fields of a form that a server wants filled in: a
// question for each field, one after the other. It knows the flat schemas that the Model
// Context Protocol allows in an elicitation: texts with a format, numbers, yes or no, one
// of some options, several of them.
package form
