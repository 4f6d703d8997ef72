//go:build !unix

package ws

// canWait says that a socket can be waited for without a buffer.
const canWait = false

func (f *frames) tryRead(uintptr) bool { return true }
