package link

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"parley/conversation/member"
)

// A node answers nobody of another cluster, and nobody who takes it for an earlier run of it.
func TestStrangers(t *testing.T) {
	a, b := open(t, "a", 1, freePort(t), "c"), open(t, "b", 2, freePort(t), "c")
	other := open(t, "x", 1, freePort(t), "another")
	know(a, b, other)
	if r := a.ask(other, echo, nil, 20*time.Second); !errors.Is(r.err, ErrUnreachable) {
		t.Errorf("a node of another cluster: %v", r.err)
	}
	if r := other.ask(b, echo, nil, 20*time.Second); !errors.Is(r.err, ErrUnreachable) {
		t.Errorf("by a node of another cluster: %v", r.err)
	}
	earlier := b.Peer
	earlier.Incarnation = 1
	a.Peers([]member.Peer{earlier})
	before := &node{Peer: earlier}
	if r := a.ask(before, echo, nil, 20*time.Second); !errors.Is(r.err, ErrUnreachable) {
		t.Errorf("an earlier run: %v", r.err)
	}
	if r := a.ask(b, echo, nil, 20*time.Second); !errors.Is(r.err, ErrUnreachable) {
		t.Errorf("a member that is not in the list: %v", r.err)
	}
	know(a, b)
	if r := a.ask(b, echo, []byte("x"), 20*time.Second); r.err != nil {
		t.Error(r.err)
	}
}

// A request to a node that ends has no answer, at once; the next run of it, on the same
// address, answers, as soon as the connection to the one of before has been given up.
func TestRestart(t *testing.T) {
	a, b := open(t, "a", 1, freePort(t), "c"), open(t, "b", 1, freePort(t), "c")
	know(a, b)
	if r := a.ask(b, echo, []byte("x"), 20*time.Second); r.err != nil {
		t.Fatal(r.err)
	}
	got := make(chan error, 1)
	began := time.Now()
	a.Request(b.Member, silent, nil, time.Hour, func(_ []byte, err error) { got <- err })
	b.Close()
	if err := <-got; !errors.Is(err, ErrUnreachable) {
		t.Error(err)
	}
	again := open(t, "b", 2, b.Address, "c")
	know(a, again)
	for look := time.Tick(time.Millisecond); ; <-look {
		r := a.ask(again, echo, []byte("x"), 20*time.Second)
		if r.err == nil {
			break
		}
		if !errors.Is(r.err, ErrUnreachable) || time.Since(began) > 20*time.Second {
			t.Fatal(r.err)
		}
	}
	t.Logf("it took %v", time.Since(began))
}

// dial opens a stream to a node as somebody who has its cluster's name.
func dial(t *testing.T, at string) (remote.RemotingClient, context.Context) {
	t.Helper()
	conn, err := grpc.NewClient(at, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return remote.NewRemotingClient(conn), metadata.AppendToOutgoingContext(t.Context(), headerCluster, "c", headerNode, "evil", headerIncarnation, "1")
}

// What would make the library panic, or reach one of its own actors, ends the stream only.
func TestHostileMessages(t *testing.T) {
	a, b := open(t, "a", 1, freePort(t), "c"), open(t, "b", 1, freePort(t), "c")
	know(a, b)
	envelope := func(target, kind, sender, serializer int32) *remote.MessageEnvelope {
		return &remote.MessageEnvelope{Target: target, TypeId: kind, Sender: sender, SerializerId: serializer}
	}
	bytesValue := []string{"google.protobuf.BytesValue"}
	for name, batch := range map[string]*remote.MessageBatch{
		"another actor":      {TypeNames: bytesValue, Targets: []string{"activator"}, Envelopes: []*remote.MessageEnvelope{envelope(0, 0, 0, 0)}},
		"another type":       {TypeNames: []string{"actor.Stop"}, Targets: []string{door}, Envelopes: []*remote.MessageEnvelope{envelope(0, 0, 0, 0)}},
		"no such target":     {TypeNames: bytesValue, Targets: []string{door}, Envelopes: []*remote.MessageEnvelope{envelope(7, 0, 0, 0)}},
		"no such type":       {TypeNames: bytesValue, Targets: []string{door}, Envelopes: []*remote.MessageEnvelope{envelope(0, -1, 0, 0)}},
		"no such sender":     {TypeNames: bytesValue, Targets: []string{door}, Envelopes: []*remote.MessageEnvelope{envelope(0, 0, 9, 0)}},
		"another serializer": {TypeNames: bytesValue, Targets: []string{door}, Envelopes: []*remote.MessageEnvelope{envelope(0, 0, 0, 1)}},
	} {
		t.Run(name, func(t *testing.T) {
			client, ctx := dial(t, b.Address)
			s, err := client.Receive(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Send(&remote.RemoteMessage{MessageType: &remote.RemoteMessage_MessageBatch{MessageBatch: batch}}); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Recv(); status.Code(err) != codes.InvalidArgument {
				t.Errorf("the stream ended with %v", err)
			}
		})
	}
	client, ctx := dial(t, b.Address)
	if _, err := client.ListProcesses(ctx, &remote.ListProcessesRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("a call: %v", err)
	}
	if r := a.ask(b, echo, []byte("x"), 20*time.Second); r.err != nil {
		t.Errorf("it answers nobody any more: %v", r.err)
	}
}

// authority makes certificates for nodes on 127.0.0.1.
func authority(t *testing.T) func() *tls.Config {
	t.Helper()
	key := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	root := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	rootKey := key()
	made, err := x509.CreateCertificate(rand.Reader, root, root, rootKey.Public(), rootKey)
	if err != nil {
		t.Fatal(err)
	}
	root, err = x509.ParseCertificate(made)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(root)
	return func() *tls.Config {
		leaf := &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
		leafKey := key()
		made, err := x509.CreateCertificate(rand.Reader, leaf, root, leafKey.Public(), rootKey)
		if err != nil {
			t.Fatal(err)
		}
		return &tls.Config{
			Certificates: []tls.Certificate{{Certificate: [][]byte{made}, PrivateKey: leafKey}},
			RootCAs:      pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
		}
	}
}

// With certificates only nodes whose authority is the same talk to each other.
func TestCertificates(t *testing.T) {
	ours, theirs := authority(t), authority(t)
	a, b := openTLS(t, "a", ours()), openTLS(t, "b", ours())
	stranger, bare := openTLS(t, "s", theirs()), openTLS(t, "n", nil)
	know(a, b, stranger, bare)
	if r := a.ask(b, echo, []byte("x"), 20*time.Second); r.err != nil {
		t.Error(r.err)
	}
	for name, from := range map[string]*node{"another authority": stranger, "no certificate": bare} {
		if r := from.ask(b, echo, []byte("x"), time.Second); !errors.Is(r.err, ErrUnreachable) {
			t.Errorf("%s: %v", name, r.err)
		}
	}
	if r := a.ask(stranger, echo, []byte("x"), time.Second); !errors.Is(r.err, ErrUnreachable) {
		t.Errorf("to a node of another authority: %v", r.err)
	}
}
