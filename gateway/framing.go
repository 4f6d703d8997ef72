package gateway

import "bytes"

// framing says what is wrong with how a request's head is written, "" = nothing. The HTTP
// library is more lenient than some proxies: where the two disagree about where a request
// ends or what a header is called, one client's bytes become another's request.
// RFC 9112, 5.1 and 6.1.
func framing(head []byte) string {
	var length, encoding bool
	for len(head) > 0 {
		line := head
		if end := bytes.IndexByte(head, '\n'); end >= 0 {
			line, head = head[:end], head[end+1:]
		} else {
			head = nil
		}
		name, _, ok := bytes.Cut(line, []byte{':'})
		switch {
		case !ok: // the empty line at the end
		case bytes.ContainsAny(name, " \t"):
			return "the name of a header has white space in it or behind it"
		case len(name) == len("Content-Length") && bytes.EqualFold(name, []byte("Content-Length")):
			length = true
		case len(name) == len("Transfer-Encoding") && bytes.EqualFold(name, []byte("Transfer-Encoding")):
			encoding = true
		}
	}
	if length && encoding {
		return "a request has Content-Length or Transfer-Encoding, not both"
	}
	return ""
}
