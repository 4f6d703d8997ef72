package metrics

import "github.com/prometheus/client_golang/prometheus"

// Gateway holds the collectors of the gateway: sockets, frames, commands,
// replays, HTTP requests and everything that is refused at the door.
type Gateway struct {
	Connections     *prometheus.GaugeVec     // state: before_hello, open
	Handshakes      *prometheus.CounterVec   // result: ok, forbidden, unavailable, not_websocket
	FramesIn        prometheus.Counter       // data frames read from sockets
	FramesOut       prometheus.Counter       // frames written to sockets and SSE streams
	BytesIn         prometheus.Counter       // payload bytes read
	BytesOut        prometheus.Counter       // bytes written, headers included
	Writes          prometheus.Counter       // write calls: frames out ÷ writes is how well coalescing works
	Commands        *prometheus.CounterVec   // type, code ("ok" or an error code)
	CommandSeconds  prometheus.Histogram     // from the frame to its answer in the queue
	QueueFrames     prometheus.Histogram     // frames waiting when a writer comes for them
	QueueBytes      prometheus.Histogram     // bytes waiting when a writer comes for them
	LagDetaches     prometheus.Counter       // live feeds detached because a client was slow
	DeltasMerged    prometheus.Counter       // deltas merged because a client was slow
	EphemeralDrops  prometheus.Counter       // typing, progress and deltas dropped because a client was slow
	Follows         prometheus.Gauge         // feeds in the follow table
	Resumes         *prometheus.CounterVec   // result: resumed, tail, other_log, ahead, too_far
	ReplayedEvents  prometheus.Counter       // events read from the log for followers
	PublishedEvents prometheus.Counter       // events that somebody followed, encoded once each
	CloseCodes      *prometheus.CounterVec   // code: the close codes of the protocol, or "other"
	Requests        *prometheus.CounterVec   // route, method, status (class: 2xx …)
	RequestSeconds  *prometheus.HistogramVec // route, method
	Streams         prometheus.Gauge         // open SSE streams
	RateLimited     prometheus.Counter       // commands refused by the token bucket
	Refused         *prometheus.CounterVec   // limit: which of [limits] refused something
	Panics          prometheus.Counter       // recovered panics in handlers
}

// NewGateway makes the collectors and registers them with r.
func NewGateway(r prometheus.Registerer) *Gateway {
	m := &Gateway{
		Connections: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "parley_gateway_connections", Help: "WebSocket connections by state.",
		}, []string{"state"}),
		Handshakes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_gateway_handshakes_total", Help: "WebSocket handshakes by result.",
		}, []string{"result"}),
		FramesIn: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "parley_gateway_frames_in_total", Help: "Data frames read from WebSockets.",
		}),
		FramesOut: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "parley_gateway_frames_out_total", Help: "Frames written to WebSockets and SSE streams.",
		}),
		BytesIn: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "parley_gateway_in_bytes_total", Help: "Payload bytes read from WebSockets.",
		}),
		BytesOut: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "parley_gateway_out_bytes_total", Help: "Bytes written to WebSockets and SSE streams.",
		}),
		Writes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "parley_gateway_writes_total", Help: "Write calls to WebSockets and SSE streams; each may carry many frames.",
		}),
		Commands: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_gateway_commands_total", Help: "Commands answered on WebSockets, by type and code.",
		}, []string{"type", "code"}),
		CommandSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "parley_gateway_command_seconds", Help: "Time from reading a command to queueing its answer.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
		}),
		QueueFrames: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "parley_gateway_queue_frames", Help: "Frames that waited for a connection's writer when it came for them.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 11),
		}),
		QueueBytes: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "parley_gateway_queue_bytes", Help: "Bytes that waited for a connection's writer when it came for them.",
			Buckets: prometheus.ExponentialBuckets(256, 4, 8),
		}),
		LagDetaches: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "parley_gateway_lag_detaches_total", Help: "Live feeds detached from slow clients, which go on from the log.",
		}),
		DeltasMerged: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "parley_gateway_deltas_merged_total", Help: "Deltas merged into a waiting one for slow clients.",
		}),
		EphemeralDrops: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "parley_gateway_ephemeral_drops_total", Help: "Ephemeral frames dropped for slow clients.",
		}),
		Follows: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "parley_gateway_follows", Help: "Followed sessions, each follower counted.",
		}),
		Resumes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_gateway_resumes_total", Help: "Follows by how they began.",
		}, []string{"result"}),
		ReplayedEvents: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "parley_gateway_replayed_events_total", Help: "Events read from the log for followers.",
		}),
		PublishedEvents: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "parley_gateway_published_events_total", Help: "Live events that were encoded because somebody followed.",
		}),
		CloseCodes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_gateway_closes_total", Help: "Closed WebSockets by close code.",
		}, []string{"code"}),
		Requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_gateway_http_requests_total", Help: "HTTP requests by route, method and status class.",
		}, []string{"route", "method", "status"}),
		RequestSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "parley_gateway_http_request_seconds", Help: "Time to answer HTTP requests; streams until their first byte.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16),
		}, []string{"route", "method"}),
		Streams: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "parley_gateway_streams", Help: "Open SSE streams.",
		}),
		RateLimited: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "parley_gateway_rate_limited_total", Help: "Frames refused because a connection sent too many.",
		}),
		Refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_gateway_refused_total", Help: "Refusals by the limit that caused them.",
		}, []string{"limit"}),
		Panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "parley_gateway_panics_total", Help: "Panics recovered in the gateway's handlers.",
		}),
	}
	r.MustRegister(m.Connections, m.Handshakes, m.FramesIn, m.FramesOut, m.BytesIn, m.BytesOut, m.Writes,
		m.Commands, m.CommandSeconds, m.QueueFrames, m.QueueBytes, m.LagDetaches, m.DeltasMerged, m.EphemeralDrops,
		m.Follows, m.Resumes, m.ReplayedEvents, m.PublishedEvents, m.CloseCodes, m.Requests, m.RequestSeconds,
		m.Streams, m.RateLimited, m.Refused, m.Panics)
	return m
}
