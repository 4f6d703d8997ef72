// Package hostile attacks a parley server and says what an honest client notices.
//
// Hostile is the command. For each attack of the list (attacks.go, held.go, requests.go)
// it starts a server of its own with its defaults (server.go), measures an honest
// client alone (honest.go), lets a second process attack (attacker.go) while it goes on
// measuring, and prints one row: the server's memory and descriptors, the honest
// client's latency, newcomers that were not served, and how the server took it. A second
// table (drains.go) says how long a server takes to end while somebody holds it up. With
// two programs each attack has a row for either.
//
// It is safe to run on a machine in use: it connects to 127.0.0.0/8 only, each attack
// ends after seconds and is bounded in number, the attacker gives way to others (nice),
// and a server whose memory grows past a limit is killed, which the row says.
package hostile
