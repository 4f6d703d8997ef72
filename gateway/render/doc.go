// Package render makes HTML of what agents write in Markdown, for clients that show
// HTML and cannot read Markdown.
//
// HTML (html.go) is the conversion: GitHub's Markdown without HTML in it and without
// images, and then a policy that lets nothing through but what such text needs. Pool
// (pool.go) does it in a few goroutines, with a bounded number of texts that wait and a
// cache (cache.go): who asks is never held up, and is given nothing when a text is too
// long or too many wait.
//
// The goroutines of a Pool run while something waits, and end by themselves.
package render
