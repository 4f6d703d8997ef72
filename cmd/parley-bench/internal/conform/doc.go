// Package conform checks a client of the protocol, written by anybody in any
// language, through a proxy that misbehaves: it drops, cuts, repeats, swallows,
// freezes and refuses, and then asks whether every message was taken once and in
// order, and every event seen once and in order.
//
// The client under test is a command. It is started anew for each case, connects
// to the address in the variable PARLEY_URL ("http://127.0.0.1:4711": its socket
// is at /ws), and talks JSON, one object a line. It is told on its standard input:
//
//	{"follow":"S"}                              follow session S from its first event
//	{"send":"text","id":"a","session":"S"}      send; the id is the client_msg_id
//	{"answer":"Q","text":"yes","id":"b","session":"S"}  answer question Q
//	{"stop":true}                               end; so does the end of the input
//
// It says on its standard output:
//
//	{"seq":4,"type":"step_started","session":"S"}  a durable event that it has accepted,
//	                                               also one of a type that it does not know
//	{"sent":"a","message":"m1"}                 the server has taken what has this id
//	{"failed":"a","code":"conflict"}            it never will
//	{"reset":"S","reason":"other_log"}          what was seen belongs to another log: it begins anew
//	{"stopped":4502}                            the connection ended with this code, for good
//
// All other lines are ignored. What it writes to its standard error is
// shown when a case fails.
package conform
