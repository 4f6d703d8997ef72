package js

import "embed"

// Page holds what the page loads, each file by its own name.
//
//go:embed client.js
var Page embed.FS
