package protocol

import "strconv"

// Limits bound what clients may do; 0 = no bound. The answer to hello names those
// of protocol v1.
type Limits struct {
	FrameBytes                      int     `key:"limits.frame_bytes" min:"0" unit:"bytes"`  // one WebSocket message from a client
	TextBytes                       int     `key:"limits.text_bytes" min:"0" unit:"bytes"`   // one message's text
	CommandsPerSecond               float64 `key:"limits.commands_per_second" min:"0"`       // per connection
	CommandsBurst                   int     `key:"limits.commands_burst" min:"0"`            // per connection
	ControlFramesPerSecond          float64 `key:"limits.control_frames_per_second" min:"0"` // pings and pongs of a connection
	ControlFramesBurst              int     `key:"limits.control_frames_burst" min:"0"`      // per connection
	FollowsPerConnection            int     `key:"limits.follows_per_connection" min:"0"`
	ConnectionsPerUser              int     `key:"limits.connections_per_user" min:"0"`
	ConnectionsPerTenant            int     `key:"limits.connections_per_tenant" min:"0"`
	Connections                     int     `key:"limits.connections" min:"0"`             // of TCP, of the server; 0 = as many as the system's files allow
	ConnectionsPerAddress           int     `key:"limits.connections_per_address" min:"0"` // of TCP
	ConnectionsBeforeHello          int     `key:"limits.connections_before_hello" min:"0"`
	ConnectionsBeforeHelloByAddress int     `key:"limits.connections_before_hello_per_address" min:"0"`
	ReplayPage                      int     `key:"limits.replay_page" min:"1" max:"10000"` // events read from the log at once; at least 1

	QueueFrames int `key:"limits.queue_frames" min:"1"`             // frames that may wait for one connection; at least 1
	QueueBytes  int `key:"limits.queue_bytes" min:"1" unit:"bytes"` // bytes that may wait for one connection; at least 1
	BodyBytes   int `key:"limits.body_bytes" min:"1" unit:"bytes"`  // one HTTP request's body; at least 1
	HeadBytes   int `key:"limits.head_bytes" min:"0" unit:"bytes"`  // one HTTP request's line and headers; 0 = 4 KiB
	PageBytes   int `key:"limits.page_bytes" min:"1" unit:"bytes"`  // a page of a list over HTTP ends here, with one item at least; at least 1
	Streams     int `key:"limits.streams" min:"0"`                  // open SSE streams of the node

	// HTTP requests, of one user and of one address.
	RequestsPerSecond           float64 `key:"limits.requests_per_second" min:"0"`
	RequestsBurst               int     `key:"limits.requests_burst" min:"0"`
	RequestsPerSecondPerAddress float64 `key:"limits.requests_per_second_per_address" min:"0"`
	RequestsBurstPerAddress     int     `key:"limits.requests_burst_per_address" min:"0"`

	StreamsPerUser    int `key:"limits.streams_per_user" min:"0"`
	StreamsPerAddress int `key:"limits.streams_per_address" min:"0"`
	WaitsPerSession   int `key:"limits.waits_per_session" min:"0"` // requests with ?wait that wait at the same time; more get their 202 at once
	WaitsPerAddress   int `key:"limits.waits_per_address" min:"0"`

	// How fast an HTTP answer must be taken, after Times.Write; at least 1.
	WriteBytesPerSecond int `key:"limits.write_bytes_per_second" min:"1" unit:"bytes"`

	AttachmentBytes       int `key:"limits.attachment_bytes" min:"1" max:"67108864" unit:"bytes"` // one uploaded file; at least 1
	AttachmentsPerMessage int `key:"limits.attachments_per_message" min:"0" max:"100"`
	UploadsAtOnce         int `key:"limits.uploads_at_once" min:"1"`             // each is in memory as a whole; at least 1
	UploadSlowest         int `key:"limits.upload_slowest" min:"0" unit:"bytes"` // bytes a second, from 15 s on; 0 = at any pace

	MembersPerSession int `key:"limits.members_per_session" min:"0" max:"10000"` // besides the owner
}

// Append shows the limits of the protocol by their names.
func (l Limits) Append(o *Object) {
	o.Key("limits")
	in := NewObject(o.Bytes)
	in.Int("frame_bytes", int64(l.FrameBytes))
	in.Int("text_bytes", int64(l.TextBytes))
	in.Key("commands_per_second")
	in.Bytes = strconv.AppendFloat(in.Bytes, l.CommandsPerSecond, 'f', -1, 64)
	in.Int("commands_burst", int64(l.CommandsBurst))
	in.Key("control_frames_per_second")
	in.Bytes = strconv.AppendFloat(in.Bytes, l.ControlFramesPerSecond, 'f', -1, 64)
	in.Int("control_frames_burst", int64(l.ControlFramesBurst))
	in.Int("follows_per_connection", int64(l.FollowsPerConnection))
	in.Int("connections_per_user", int64(l.ConnectionsPerUser))
	in.Int("connections_per_tenant", int64(l.ConnectionsPerTenant))
	in.Int("connections", int64(l.Connections))
	in.Int("connections_per_address", int64(l.ConnectionsPerAddress))
	in.Int("connections_before_hello", int64(l.ConnectionsBeforeHello))
	in.Int("connections_before_hello_per_address", int64(l.ConnectionsBeforeHelloByAddress))
	in.Int("replay_page", int64(l.ReplayPage))
	in.Int("members_per_session", int64(l.MembersPerSession))
	in.Int("attachment_bytes", int64(l.AttachmentBytes))
	in.Int("attachments_per_message", int64(l.AttachmentsPerMessage))
	o.Bytes = in.Close()
}

// DefaultLimits are those of a configuration that says nothing.
func DefaultLimits() Limits {
	return Limits{
		FrameBytes: 256 << 10, TextBytes: 128 << 10,
		CommandsPerSecond: 20, CommandsBurst: 40, ControlFramesPerSecond: 10, ControlFramesBurst: 40,
		FollowsPerConnection: 64, ConnectionsPerUser: 100, ConnectionsPerTenant: 10_000, ConnectionsPerAddress: 1000,
		ConnectionsBeforeHello: 200, ConnectionsBeforeHelloByAddress: 20,
		ReplayPage:  500,
		QueueFrames: 1024, QueueBytes: 1 << 20, BodyBytes: 1 << 20, HeadBytes: 4 << 10, Streams: 2000,
		RequestsPerSecond: 200, RequestsBurst: 400, RequestsPerSecondPerAddress: 500, RequestsBurstPerAddress: 2000,
		StreamsPerUser: 100, StreamsPerAddress: 1000, WaitsPerSession: 100, WaitsPerAddress: 1000,
		PageBytes: 2 << 20, WriteBytesPerSecond: 32 << 10,
		MembersPerSession: 100, AttachmentBytes: 10 << 20, AttachmentsPerMessage: 10, UploadsAtOnce: 16, UploadSlowest: 16 << 10,
	}
}
