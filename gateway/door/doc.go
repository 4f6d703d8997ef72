// Package door is what the ways in over HTTP share, be it the protocol's own routes or
// those of another protocol: who asks ([HTTP.Authenticated], [Principal]), how often one may
// ([HTTP.LimitAddress]), reading a body, asking the engine and waiting for its answer, and
// answering with a stream ([HTTP.Stream], [HTTP.ServeEvents]).
//
// A way in registers its handlers behind [HTTP.Named], which gives a route its name in the
// metrics, and [HTTP.Authenticated]. Handlers return errors of the engine as they are; how
// an error looks is the business of each protocol.
//
// Each request runs in the HTTP library's goroutine, a stream in the one that writes its
// body. What may last has a second goroutine, which notices that its client has gone.
package door
