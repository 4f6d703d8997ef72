package protocol

import (
	"testing"
	"unicode/utf8"

	"parley/conversation"
)

// FuzzReadData: whatever the data of a command is, it is read or refused with a sentence,
// and what is taken keeps the bounds of the document.
func FuzzReadData(f *testing.F) {
	limits := Limits{TextBytes: 100}
	readers := []func(data []byte) (texts, ids []string, bad *conversation.Error){
		func(b []byte) ([]string, []string, *conversation.Error) {
			d, bad := ReadHello(b)
			return []string{d.Token, d.Name, d.Version}, nil, bad
		},
		func(b []byte) ([]string, []string, *conversation.Error) {
			d, bad := ReadCreate(b)
			return []string{d.Create.Title}, []string{d.ClientID}, bad
		},
		func(b []byte) ([]string, []string, *conversation.Error) {
			d, bad := ReadFollow(b)
			return []string{d.Log}, nil, bad
		},
		func(b []byte) ([]string, []string, *conversation.Error) {
			d, bad := ReadSend(b, limits)
			if bad == nil && len(*d.Text) > limits.TextBytes {
				f.Errorf("a text of %d bytes", len(*d.Text))
			}
			return nil, []string{d.ClientID}, bad
		},
		func(b []byte) ([]string, []string, *conversation.Error) {
			d, bad := ReadAnswer(b, limits)
			if bad == nil && len(*d.Text) > limits.TextBytes {
				f.Errorf("a text of %d bytes", len(*d.Text))
			}
			return nil, []string{d.ClientID}, bad
		},
		func(b []byte) ([]string, []string, *conversation.Error) {
			d, bad := ReadMessage("move", b)
			return []string{d.Message, d.Before}, nil, bad
		},
		func(b []byte) ([]string, []string, *conversation.Error) {
			d, bad := ReadCancel(b)
			return []string{d.Reason}, nil, bad
		},
		func(b []byte) ([]string, []string, *conversation.Error) {
			d, bad := ReadPart(b, limits)
			return []string{d.Text}, nil, bad
		},
		func(b []byte) ([]string, []string, *conversation.Error) {
			_, bad := ReadRuntimeSays(b)
			return nil, nil, bad
		},
		func(b []byte) ([]string, []string, *conversation.Error) {
			_, bad := ReadClaim(b)
			return nil, nil, bad
		},
		func(b []byte) ([]string, []string, *conversation.Error) {
			_, err := ReadOverrides(b)
			if err != nil {
				return nil, nil, BadInput(err, "data")
			}
			return nil, nil, nil
		},
	}
	for i, seed := range []string{
		`{"proto":1,"token":"t","client":{"name":"n","version":"v"},"caps":["deltas"]}`,
		`{"client_session_id":"s","title":"t","agent":"a","access":"tenant","policy":{"inbox.mode":"queue"}}`,
		`{"since":3,"tail":4,"log":"l"}`, `{"client_msg_id":"m","text":"\ud83d\ude00","in_reply_to":"q","mode":"steer"}`,
		`{"client_msg_id":"m","question":"q","text":"yes"}`, `{"message":"m","text":"t","before":"n"}`,
		`{"task":"t","reason":"r","waiting":"drop"}`, `{"source_id":"s","part_index":1,"generation":2,"text":"x","final":true}`,
		`{"status":"failed","generation":1,"error":"e","permanent":true}`, `{"runtime":"r","agent":"a","limit":3,"wait":"5s"}`,
		`{"inbox.mode":"queue","task.max_steps":3,"retry.backoff_min":"1ms"}`,
	} {
		f.Add(i, []byte(seed))
	}
	f.Fuzz(func(t *testing.T, which int, data []byte) {
		if !utf8.Valid(data) {
			return // is refused before
		}
		texts, ids, bad := readers[uint(which)%uint(len(readers))](data)
		if bad != nil {
			if bad.Message == "" || bad.Code == conversation.Internal {
				t.Errorf("refused with %q: %q", bad.Code, bad.Message)
			}
			return
		}
		for _, id := range ids {
			if len(id) > MaxClientMsgID {
				t.Errorf("an id of %d bytes", len(id))
			}
		}
		for _, s := range append(texts, ids...) {
			if !utf8.ValidString(s) {
				t.Errorf("%q is not UTF-8", s)
			}
		}
	})
}
