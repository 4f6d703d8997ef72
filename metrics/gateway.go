package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Gateway holds the collectors of the gateway: sockets, frames, commands,
// replays, HTTP requests and everything that the gateway refuses.
type Gateway struct {
	Connections     *prometheus.GaugeVec                  // state: before_hello, open
	TCPConnections  prometheus.Gauge                      // open connections of any kind
	AcceptErrors    prometheus.Counter                    // no connection could be taken, for want of files or memory
	Handshakes      *prometheus.CounterVec                // result: ok, forbidden, unavailable, not_websocket
	FramesIn        prometheus.Counter                    // data frames read from sockets
	FramesOut       prometheus.Counter                    // frames written to sockets and SSE streams
	BytesIn         prometheus.Counter                    // payload bytes read
	BytesOut        prometheus.Counter                    // bytes written, headers included
	Writes          prometheus.Counter                    // write calls: frames out ÷ writes is how well coalescing works
	Commands        *prometheus.CounterVec                // type, code ("ok" or an error code)
	CommandSeconds  func(kind string) prometheus.Observer // from the frame to its answer in the queue: type
	QueueFrames     prometheus.Histogram                  // frames waiting when a writer comes for them
	QueueBytes      prometheus.Histogram                  // bytes waiting when a writer comes for them
	LagDetaches     prometheus.Counter                    // live feeds detached because a client was slow
	DeltasMerged    prometheus.Counter                    // deltas merged because a client was slow
	Ephemeral       *prometheus.CounterVec                // type: delta, draft_state, draft_dropped, progress, thinking, typing
	EphemeralDrops  prometheus.Counter                    // typing, progress and deltas dropped because a client was slow
	Follows         prometheus.Gauge                      // feeds in the follow table
	Resumes         *prometheus.CounterVec                // result: resumed, tail, other_log, ahead
	ResumeEvents    prometheus.Histogram                  // events that a follower has read from the log until it was level
	ResumeSeconds   prometheus.Histogram                  // from the beginning of a follow until then
	ReplayedEvents  prometheus.Counter                    // events read from the log for followers
	ReplaysAgain    prometheus.Counter                    // attempts to read a log that was out of reach
	PublishedEvents prometheus.Counter                    // events that somebody followed, encoded once each
	CloseCodes      *prometheus.CounterVec                // code: the close codes of the protocol, or "other"
	Requests        *prometheus.CounterVec                // route, method, status (class: 2xx …)
	RequestSeconds  *prometheus.HistogramVec              // route, method
	Streams         prometheus.Gauge                      // open SSE streams
	RateLimited     prometheus.Counter                    // commands refused by the token bucket
	Refused         *prometheus.CounterVec                // limit: which of [limits] refused something
	Rendered        *prometheus.CounterVec                // result: done, cached, long, busy, failed
	SignIns         *prometheus.CounterVec                // result: "ok", an error code, "held_back"
	Panics          prometheus.Counter                    // recovered panics in handlers
}

// The values of labels that several metrics have.
const (
	frameTypes = "type=hello|create|follow|unfollow|send|answer|edit|withdraw|move|cancel|clear|policy|claim|seen|typing|refresh|ping|watch|unwatch|watch_chats|unwatch_chats|unknown"
	methods    = "method=GET|HEAD|POST|PATCH|DELETE|PUT|OPTIONS|other"
)

// NewGateway makes the collectors and registers them with r.
func NewGateway(r prometheus.Registerer) *Gateway {
	f := newFactory(r, "parley_gateway_")
	return &Gateway{
		Connections:     f.gauges("connections", "WebSocket connections by state.", "state=before_hello|open"),
		TCPConnections:  f.gauge("tcp_connections", "Open TCP connections: sockets, streams, and HTTP connections whether used or not."),
		AcceptErrors:    f.counter("accept_errors_total", "Attempts to take a connection that failed, mostly for want of file descriptors."),
		Handshakes:      f.counters("handshakes_total", "WebSocket handshakes by result.", "result=ok|forbidden|unavailable|not_websocket"),
		FramesIn:        f.counter("frames_in_total", "Data frames read from WebSockets."),
		FramesOut:       f.counter("frames_out_total", "Frames written to WebSockets and SSE streams."),
		BytesIn:         f.counter("in_bytes_total", "Payload bytes read from WebSockets."),
		BytesOut:        f.counter("out_bytes_total", "Bytes written to WebSockets and SSE streams."),
		Writes:          f.counter("writes_total", "Write calls to WebSockets and SSE streams; each may carry many frames."),
		Commands:        f.counters("commands_total", "Commands answered on WebSockets, by type and code.", frameTypes, codes),
		CommandSeconds:  observers(f.histograms("command_seconds", "Time from reading a command to queueing its answer, by type.", prometheus.ExponentialBuckets(0.0005, 2, 14), frameTypes)),
		QueueFrames:     f.histogram("queue_frames", "Frames that waited for a connection's writer when it came for them.", prometheus.ExponentialBuckets(1, 2, 11)),
		QueueBytes:      f.histogram("queue_bytes", "Bytes that waited for a connection's writer when it came for them.", prometheus.ExponentialBuckets(256, 4, 8)),
		LagDetaches:     f.counter("lag_detaches_total", "Live feeds detached from slow clients, which go on from the log."),
		DeltasMerged:    f.counter("deltas_merged_total", "Deltas merged into a waiting one for slow clients."),
		Ephemeral:       f.counters("ephemeral_total", "Ephemeral frames for followers, each counted once, by type; a draft_state for each follower.", "type=delta|draft_state|draft_dropped|progress|thinking|typing"),
		EphemeralDrops:  f.counter("ephemeral_drops_total", "Ephemeral frames dropped for slow clients."),
		Follows:         f.gauge("follows", "Followed sessions, each follower counted."),
		Resumes:         f.counters("resumes_total", "Follows by how they began.", "result=resumed|tail|other_log|ahead"),
		ResumeEvents:    f.histogram("resume_events", "Events that a follower was sent from the log until it was level with the session, once for each follow.", append([]float64{0}, prometheus.ExponentialBuckets(1, 4, 9)...)),
		ResumeSeconds:   f.histogram("resume_seconds", "Time from the beginning of a follow until the follower was level with the session.", prometheus.ExponentialBuckets(0.0005, 2, 16)),
		ReplayedEvents:  f.counter("replayed_events_total", "Events read from the log for followers."),
		ReplaysAgain:    f.counter("replays_again_total", "Attempts to read the log for a follower while the store was out of reach; each is made again."),
		PublishedEvents: f.counter("published_events_total", "Live events that were encoded because somebody followed."),
		CloseCodes:      f.counters("closes_total", "Closed WebSockets by close code of docs/PROTOCOL.md, or other.", "code"),
		Requests:        f.counters("http_requests_total", "HTTP requests by route, method and status class. Paths and methods that are not served are other; what is no HTTP method at all is refused before and not counted.", "route", methods, "status=1xx|2xx|3xx|4xx|5xx"),
		RequestSeconds:  f.histograms("http_request_seconds", "Time to answer HTTP requests; streams until their first byte.", prometheus.ExponentialBuckets(0.0005, 2, 16), "route", methods),
		Streams:         f.gauge("streams", "Open SSE streams."),
		RateLimited:     f.counter("rate_limited_total", "Frames refused because a connection sent too many."),
		Refused:         f.counters("refused_total", "Refusals by the limit that caused them.", "limit"),
		Rendered:        f.counters("rendered_total", "Parts for clients that show HTML, by what became of them.", "result=done|cached|long|busy|failed"),
		SignIns:         f.counters("sign_ins_total", "Credentials that were looked at, by result.", "result"),
		Panics:          f.counter("panics_total", "Panics recovered in the gateway's handlers."),
	}
}
