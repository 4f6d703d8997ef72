// Package modelstest is the suite that every model adapter passes.
//
// Run holds for any model. RunUpstream adds what models behind HTTP need: their provider
// is played by Upstream, a strict stand-in on the loopback that speaks the wire format
// and fails the test for a request that the real server would refuse. Responses, Chat and
// Messages are the formats. Table prints the results of several adapters side by side.
//
// GoldenRequests compares the bytes of requests with files. Fixed is a provider that
// sends one thing, Fake a model without a provider, Playing a model that plays a Scenario.
// Ask and Collect read a stream to its end.
//
// Only tests import it. A stand-in ends with its test, with all its goroutines.
package modelstest
