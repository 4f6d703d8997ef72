// Package searchtest is the suite that every index of searches passes: it keeps what the logs
// say, and no more, whatever it is given and whenever.
package searchtest
