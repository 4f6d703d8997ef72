// Package gatewaytest holds what the tests of the gateway's rooms need:
//
//   - Sessions, the engine behind the gateway's interface: the real machine over a
//     store in memory (package machinetest), with the hooks that a gateway is
//     tested with: hold the engine, refuse a command, store without publishing,
//     show what is not stored;
//   - Client, a WebSocket client that knows the protocol;
//   - Contract, which holds every frame and exchange against openapi.yaml and
//     asyncapi.yaml;
//   - Golden and Samples: one event of every kind, and files to compare with;
//   - Notes and Teller, which tell a play, what happens in a session, to who folds it.
//
// It does not import the gateway, so that the gateway's own tests can use it.
// Sessions owns one goroutine, from NewSessions to Close; a Client has none.
package gatewaytest
