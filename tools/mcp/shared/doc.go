// Package shared offers the tools of one MCP server to all nodes of a cluster, of which one runs
// the server's program.
//
// On the node that runs it, Run opens the server and Answer carries out what the nodes ask. On
// every node Follow learns the tools, which join like those of a server that comes late, and
// a call of a tool is sent to the node that runs the program: its arguments there, its result
// back, and meanwhile the notes of its progress and the questions to the user.
//
// A call is made once at most. One that was certainly not made waits for a node that runs the
// server, for a bounded time; one whose answer was lost is told as such, as if the program
// had died.
package shared
