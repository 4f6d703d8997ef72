// Package option describes the options of packages that can be configured: the tags
// of their fields, and what is wrong with a value, by the key of the configuration.
package option
