package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Attachments holds the collectors of what is attached to messages.
type Attachments struct {
	Uploads       prometheus.Counter     // files that were taken, also those that were there already
	UploadedBytes prometheus.Counter     // bytes that were stored
	Refused       *prometheus.CounterVec // code: why an upload was refused
	Swept         prometheus.Counter     // files that no message named in time
	SweptBytes    prometheus.Counter
}

// NewAttachments makes the collectors and registers them with r.
func NewAttachments(r prometheus.Registerer) *Attachments {
	f := newFactory(r, "parley_attachments_")
	return &Attachments{
		Uploads:       f.counter("uploads_total", "Files that were taken, also those that their session had already."),
		UploadedBytes: f.counter("uploaded_bytes_total", "Bytes of files that were stored."),
		Refused:       f.counters("refused_total", "Uploads that were refused, by the code of the error.", "code"),
		Swept:         f.counter("swept_total", "Files that were taken away because no message named them in time."),
		SweptBytes:    f.counter("swept_bytes_total", "Bytes of those files."),
	}
}
