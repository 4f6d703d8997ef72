// Package waystest is a kit for tests of the gateway's ways in, such as those of other protocols:
//
//   - Begin, a running gateway over gatewaytest.Sessions: a test plays the model, and is a client;
//   - Call and Reply, requests over HTTP and what they are answered with, also as events;
//   - WithKeys, the users that the tests know, by their tokens;
//   - Way, a benchmark of how long a text is on its way to a client;
//   - Main, the TestMain of a room whose tests may leave no goroutine behind.
//
// It imports the gateway, so that the gateway and the rooms that it imports can use it only in
// tests of packages with the ending _test. What is told event by event has its kit in gatewaytest.
//
// A Rig owns the goroutines of the gateway and of its sessions, from Begin to the end of the
// test; a Reply owns none, and its connection is given up with the test.
package waystest
