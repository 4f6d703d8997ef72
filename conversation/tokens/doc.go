// Package tokens estimates the size of texts as models count it.
package tokens
