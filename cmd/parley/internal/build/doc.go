// Package build says which program this is: its version, the commit that it was made of,
// and with what. "parley version", the route /version, the log's first line, backups and
// the metric of the build all ask here. It has no state and starts nothing.
package build
