package link

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"parley/actors/cluster/internal/fields"
	"parley/conversation"
)

// What a node says of itself at the beginning of a stream.
const (
	headerCluster     = "parley-cluster"
	headerNode        = "parley-node"
	headerIncarnation = "parley-incarnation"
)

// connect opens the stream to another node. A node that is there and does not answer yet is
// tried until it does, or is no member any more.
func (l *Link) connect(ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	address := cc.Target()
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(ctx,
		headerCluster, l.o.Cluster, headerNode, string(l.o.Self.Node), headerIncarnation, strconv.FormatUint(uint64(l.o.Self.Incarnation), 10)))
	for began := time.Now(); ; {
		s, err := open(ctx, d, cc, method, opts...)
		if err == nil {
			out := &outStream{ClientStream: s, l: l, address: address, cancel: cancel}
			l.mu.Lock()
			before := l.streams[address]
			l.streams[address] = out
			l.mu.Unlock()
			if before != nil {
				before.cancel()
			}
			return out, nil
		}
		l.mu.Lock()
		living := l.at(address) != nil
		l.mu.Unlock()
		if !living || l.closed.Load() || status.Code(err) == codes.PermissionDenied {
			cancel()
			l.unreached(address, time.Time{}, err)
			return nil, err
		}
		l.unreached(address, began, err)
		<-time.After(retryConnect)
	}
}

// at is the living member at an address. The lock is held.
func (l *Link) at(address string) *peer {
	for _, p := range l.peers {
		if p.address == address && !p.dead {
			return p
		}
	}
	return nil
}

// outStream counts what was sent.
type outStream struct {
	grpc.ClientStream
	l       *Link
	address string
	cancel  context.CancelFunc
}

func (s *outStream) SendMsg(m any) error {
	err := s.ClientStream.SendMsg(m)
	bytes := 0
	if message, ok := m.(*remote.RemoteMessage); ok {
		for _, e := range message.GetMessageBatch().GetEnvelopes() {
			bytes += len(e.MessageData)
		}
	}
	if bytes == 0 {
		return err
	}
	s.l.o.Count("out", bytes)
	s.l.mu.Lock()
	var p *peer
	if s.l.streams[s.address] == s { // otherwise what waited for it counts no more
		p = s.l.at(s.address)
	}
	s.l.mu.Unlock()
	if p != nil {
		p.sent(bytes)
	}
	return err
}

// serve takes the stream of another node: one of this cluster, and not a run of it that has
// ended. A message that the library could not bear ends the stream, not the process.
func (l *Link) serve(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	said, _ := metadata.FromIncomingContext(s.Context())
	get := func(name string) string {
		if v := said.Get(name); len(v) == 1 {
			return v[0]
		}
		return ""
	}
	if got := get(headerCluster); got != l.o.Cluster {
		if from, ok := grpcpeer.FromContext(s.Context()); ok {
			l.turnedAway(from.Addr, errAnotherCluster)
		}
		return status.Errorf(codes.PermissionDenied, "this node is of another cluster (cluster.name)")
	}
	incarnation, _ := strconv.ParseUint(get(headerIncarnation), 10, 64)
	from := conversation.Member{Node: conversation.NodeID(get(headerNode)), Incarnation: conversation.Incarnation(incarnation)}
	l.mu.Lock()
	known := l.peers[from.Node]
	late := known != nil && known.Incarnation > from.Incarnation
	if !late {
		l.inbound[from]++
	}
	l.mu.Unlock()
	if late {
		return status.Errorf(codes.PermissionDenied, "this node has been started again elsewhere")
	}
	defer func() {
		if r := recover(); r != nil {
			err = status.Error(codes.Internal, "the message cannot be read")
			l.o.Log.Error("a message of another node ended its stream", "node", from.String(), "panic", fmt.Sprint(r))
		}
		l.lost(from) // answers may have been lost with it
		l.mu.Lock()
		if l.inbound[from]--; l.inbound[from] == 0 {
			delete(l.inbound, from)
		}
		l.mu.Unlock()
		l.system.Root.Send(l.self, ended{from})
	}()
	return next(srv, &inStream{ServerStream: s, l: l, from: from})
}

// inStream lets through what is for the door, in the name of the node that has opened it, and
// nothing for the library's own actors.
type inStream struct {
	grpc.ServerStream
	l    *Link
	from conversation.Member
}

func (s *inStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	message, _ := m.(*remote.RemoteMessage)
	batch := message.GetMessageBatch()
	bytes := 0
	for _, e := range batch.GetEnvelopes() {
		if int(e.Target) >= len(batch.Targets) || e.Target < 0 || batch.Targets[e.Target] != door ||
			int(e.TypeId) >= len(batch.TypeNames) || e.TypeId < 0 || batch.TypeNames[e.TypeId] != "google.protobuf.BytesValue" ||
			int(e.Sender) > len(batch.Senders) || e.Sender < 0 || e.SerializerId != 0 {
			return status.Error(codes.InvalidArgument, "only messages to the door are taken")
		}
		if from, ok := senderOf(e.MessageData); !ok || from != s.from {
			return status.Error(codes.InvalidArgument, "a node sends in its own name only")
		}
		bytes += len(e.MessageData)
	}
	if bytes > 0 {
		s.l.o.Count("in", bytes)
	}
	return nil
}

// senderOf says whose an envelope is, as it crosses: as the one field of a BytesValue.
func senderOf(data []byte) (conversation.Member, bool) {
	var e envelope
	var broken error
	err := fields.Read(data, func(field fields.Number, _ uint64, v []byte) {
		if field == 1 {
			e = envelope{} // the last one counts, as for the library
			broken = e.read(v)
		}
	})
	return e.from, err == nil && broken == nil
}

// refuseCalls refuses the library's calls about its processes: it would panic.
func refuseCalls(context.Context, any, *grpc.UnaryServerInfo, grpc.UnaryHandler) (any, error) {
	return nil, status.Error(codes.Unimplemented, "there is no such call")
}

// quiet keeps the library's log for those who look for a fault: what it calls an error is
// mostly a node that has gone, of which this package says more.
type quiet struct{ slog.Handler }

func (q quiet) Enabled(ctx context.Context, _ slog.Level) bool {
	return q.Handler.Enabled(ctx, slog.LevelDebug)
}

func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelDebug
	return q.Handler.Handle(ctx, r)
}

func (q quiet) WithAttrs(a []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(a)} }
func (q quiet) WithGroup(name string) slog.Handler   { return quiet{q.Handler.WithGroup(name)} }
