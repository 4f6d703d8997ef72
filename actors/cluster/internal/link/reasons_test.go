package link

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// What goes wrong between two nodes is said in a sentence that names what to look at.
func TestReasons(t *testing.T) {
	host := x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"other.example"}}, Host: "node.example"}
	for want, err := range map[string]error{
		"authority in this node's cluster.tls_ca": &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}},
		"not for the host in its":                 &tls.CertificateVerificationError{Err: host},
		"has expired":                             &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired}},
		"authority in its cluster.tls_ca":         errors.New("remote error: " + tls.AlertError(48).Error()),
		"shows none":                              errors.New("remote error: " + tls.AlertError(116).Error()),
		"this node's cluster.advertise":           errors.New("remote error: " + tls.AlertError(42).Error()),
		"look at its log":                         errors.New("remote error: " + tls.AlertError(40).Error()),
		"speaks without certificates":             tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"},
		"nobody listens":                          &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)},
		"does not know the host":                  &net.DNSError{Err: "no such host", Name: "node.example"},
		"firewall":                                status.FromContextError(context.DeadlineExceeded).Err(),
		"ended at once":                           io.EOF,
		"another cluster":                         status.Error(codes.PermissionDenied, "this node is of another cluster (cluster.name)"),
		"of its own":                              errors.New("something of its own"),
	} {
		for _, err := range []error{err, fmt.Errorf("connection error: desc = %w", err)} {
			if got := reason(err); !strings.Contains(got, want) {
				t.Errorf("%v: %q, want %q", err, got, want)
			}
		}
	}
}

// The same is said once in a while only, and what is remembered has an end.
func TestSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s said
		times := 0
		for range 90 {
			if s.again("x") {
				times++
			}
			<-time.After(time.Second)
		}
		if times != 3 {
			t.Errorf("said %d times in 90 seconds", times)
		}
		for i := range 10 * maxSaid {
			if !s.again(fmt.Sprint(i)) {
				t.Fatalf("the %dth thing was not said", i)
			}
		}
		if len(s.at) > maxSaid {
			t.Errorf("%d things are remembered", len(s.at))
		}
	})
}
