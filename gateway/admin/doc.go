// Package admin serves what is for the operator and not for users: metrics, profiles,
// backups.
//
// Handler serves them on an address of their own (admin.listen), or on the main one
// where no stranger reaches that; the gateway decides which. On every route a Guard looks
// at Host, Origin and Sec-Fetch-Site first, and where the address is not the machine's
// own a credential with the scope admin is needed, health aside. A profile that takes
// time is bounded (MaxSeconds), runs alone, and ends with the client that asked for it.
//
// The package starts one goroutine for each profile asked for at the main address: it
// watches the connection, and ends with the request.
package admin
