//go:build !unix

package store

// There are no such modes here.

func wide(string) string { return "" }

func owned(string) bool { return true }

func makePrivate(string) error { return nil }
