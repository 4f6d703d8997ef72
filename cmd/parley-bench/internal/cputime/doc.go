// Package cputime asks the system how much processor time a process has used.
package cputime
