package cluster

import (
	"errors"

	"parley/conversation"
)

// encoding is how commands and what answers them cross between nodes.
type encoding struct{}

var codec encoding

var errNoEncoding = errors.New("commands do not cross between nodes yet")

func (encoding) AppendCommand(b []byte, c conversation.Command) []byte  { return b }
func (encoding) AppendReceipt(b []byte, r conversation.Receipt) []byte  { return b }
func (encoding) AppendView(b []byte, v conversation.View) []byte        { return b }
func (encoding) AppendError(b []byte, e *conversation.Error) []byte     { return b }
func (encoding) ReadCommand([]byte) (conversation.Command, error)       { return nil, errNoEncoding }
func (encoding) ReadReceipt([]byte) (r conversation.Receipt, err error) { return r, errNoEncoding }
func (encoding) ReadView([]byte) (v conversation.View, err error)       { return v, errNoEncoding }
func (encoding) ReadError([]byte) (*conversation.Error, error)          { return nil, errNoEncoding }
