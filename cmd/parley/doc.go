// Command parley is the conversation engine's server: one process, one data
// directory, one address. It joins the rooms; it decides nothing itself.
//
// main.go runs a command, cli.go reads the command line, serve.go starts and
// drains the server, health.go asks one how it is, doctor.go looks at what a start
// needs, user_error.go turns failures into sentences, gc.go keeps the smallest heap
// size, logging.go makes the log.
// internal/config reads the configuration, internal/assemble makes of it what a run
// needs, internal/store opens the store. The end-to-end tests of the program stand
// here, and those that hold the architecture together (arrows_test.go).
//
// serve owns two goroutines, the engine's Run and the gateway's Run, and returns
// when both have ended; one more waits for signals as long as the process lives.
package main
