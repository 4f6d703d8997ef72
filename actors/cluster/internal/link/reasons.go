package link

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

// How often the same thing is said, and how long a node may be away before it is: one
// that starts again, or was killed, is away for a moment.
const (
	sayAgain = 30 * time.Second
	sayAfter = time.Second
	maxSaid  = 1000 // things that are remembered
)

var errAnotherCluster = errors.New("it is of another cluster (cluster.name)")

// said remembers what was said when. The zero one has said nothing.
type said struct {
	mu sync.Mutex
	at map[string]time.Time
}

// again is true when a thing is to be said: the first time, and then once in a while.
func (s *said) again(what string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if last, ok := s.at[what]; ok && now.Sub(last) < sayAgain {
		return false
	}
	if s.at == nil || len(s.at) >= maxSaid {
		s.at = map[string]time.Time{}
	}
	s.at[what] = now
	return true
}

// unreached logs why there is no stream to an address, that has been tried since began.
func (l *Link) unreached(address string, began time.Time, err error) {
	why := reason(err)
	if time.Since(began) < sayAfter || !l.said.again("to "+address+" "+why) {
		return
	}
	node := ""
	l.mu.Lock()
	if p := l.at(address); p != nil {
		node = p.Member.String()
	}
	l.mu.Unlock()
	l.o.Log.Warn("another node cannot be reached", "node", node, "address", address, "reason", why, "error", err)
}

// turnedAway logs why somebody who came was not let in.
func (l *Link) turnedAway(from net.Addr, err error) {
	host := ""
	if from != nil {
		if host, _, _ = net.SplitHostPort(from.String()); host == "" {
			host = from.String()
		}
	}
	level := slog.LevelWarn
	if errors.Is(err, io.EOF) { // somebody has looked whether the port is open
		level = slog.LevelDebug
	}
	if why := reason(err); l.said.again("from " + host + " " + why) {
		l.o.Log.Log(context.Background(), level, "somebody was not let in at the cluster port", "from", host, "reason", why, "error", err)
	}
}

// doorman has handshakes that fail logged: to the library they are a matter of the other side.
type doorman struct {
	credentials.TransportCredentials
	l *Link
}

func (d doorman) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := d.TransportCredentials.ServerHandshake(c)
	if err != nil {
		d.l.turnedAway(c.RemoteAddr(), err)
	}
	return conn, info, err
}

func (d doorman) Clone() credentials.TransportCredentials {
	return doorman{d.TransportCredentials.Clone(), d.l}
}

// reasons are sentences about the other side, by what errors say. The first one that fits
// counts.
var reasons = []struct{ has, means string }{
	{"certificate signed by unknown authority", "its certificate is not signed by the authority in this node's cluster.tls_ca"},
	{"certificate is valid for", "its certificate is not for the host in its cluster.advertise"},
	{"cannot validate certificate for", "its certificate is not for the host in its cluster.advertise"},
	{"not valid for any names", "its certificate is not for the host in its cluster.advertise"},
	{"remote error: tls: unknown certificate authority", "this node's certificate is not signed by the authority in its cluster.tls_ca"},
	{"remote error: tls: expired certificate", "it finds that this node's certificate has expired"},
	{"remote error: tls: certificate required", "it wants a certificate, and this node shows none"},
	{"remote error: tls: bad certificate", "it does not take this node's certificate: that is not signed by the authority in its cluster.tls_ca, " +
		"or is not for the host in this node's cluster.advertise"},
	{"remote error: tls:", "it does not take this node's certificate: look at its log"},
	{"expired or is not yet valid", "its certificate has expired, or is not valid yet; or a clock is wrong"},
	{"didn't provide a certificate", "it shows no certificate"},
	{"does not look like a TLS handshake", "it speaks without certificates (cluster.insecure), and this node with them"},
	{"connection refused", "nobody listens there: it has ended, or its cluster.advertise is wrong"},
	{"no such host", "this node does not know the host in its cluster.advertise"},
	{"i/o timeout", "it does not answer: there is a firewall between the two, or its cluster.advertise is wrong"},
	{"deadline exceeded", "it does not answer: there is a firewall between the two, or its cluster.advertise is wrong"},
	{"no route to host", "there is no way to it from here, or its cluster.advertise is wrong"},
	{"network is unreachable", "there is no way to it from here, or its cluster.advertise is wrong"},
	{"reading server preface", "the connection ends at once: perhaps only one of the two has certificates (cluster.insecure)"},
	{"EOF", "the connection ended at once"},
}

// reason is a sentence about why two nodes do not talk to each other.
func reason(err error) string {
	text := err.Error()
	for _, r := range reasons {
		if strings.Contains(text, r.has) {
			return r.means
		}
	}
	if s, ok := status.FromError(err); ok {
		return s.Message()
	}
	return text
}
