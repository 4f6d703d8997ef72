// Package asking finds the open question that a message answers, or is asked about: what
// people say answers what people are asked, and never stands for the result of a tool that
// the session's caller runs. It reads the state and changes nothing; package machine closes
// the questions.
package asking
