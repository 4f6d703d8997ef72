// Package toolstest is the suite that every tool passes: Run checks that the spec is fit
// for the providers of models, that Check accepts and refuses the given arguments, that
// results and errors are short valid UTF-8, and that a call ends with its context. Only
// tests import it.
package toolstest
