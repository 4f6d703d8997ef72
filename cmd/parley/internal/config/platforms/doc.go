// Package platforms is the configuration of channels: how messages come, and what is said of each chat
// platform. Package config reads and checks it; it starts nothing.
package platforms
