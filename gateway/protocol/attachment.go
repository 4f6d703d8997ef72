package protocol

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"parley/conversation"
	"parley/conversation/attached"
)

// attachments reads [{"hash":…,"name":…}]; most 0 = any number of them.
func (m Member) attachments(dst *[]NamedFile, most int) error {
	if m.null() {
		return nil
	}
	if m.Raw[0] != '[' {
		return m.wrong("a list of attachments")
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(m.Raw), decoderOptions...)
	for _, err := d.ReadToken(); err == nil && d.PeekKind() != ']'; {
		var raw jsontext.Value
		if raw, err = d.ReadValue(); err != nil {
			return err
		}
		if most > 0 && len(*dst) == most {
			return conversation.Errorf(conversation.TooLarge, "a message may have at most %d attachments", most)
		}
		var a NamedFile
		var hash string
		err = ReadObject(raw, func(in Member) error {
			switch string(in.Name) {
			case "hash":
				return in.Bounded(&hash, 64)
			case "name":
				return in.Bounded(&a.Name, MaxTitle)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if a.Hash = attached.Hash(hash); !a.Hash.Valid() {
			return conversation.Errorf(conversation.BadRequest, "the hash of an attachment must be 64 hexadecimal digits, as its upload was answered")
		}
		*dst = append(*dst, a)
	}
	return nil
}

// AppendFile is an attachment as events, lists and uploads show it.
func AppendFile(dst []byte, f attached.File) []byte {
	o := NewObject(dst)
	o.Text("hash", string(f.Hash))
	o.Text("name", f.Name)
	o.Text("type", f.Type)
	o.Uint("size", uint64(f.Size))
	return o.Close()
}

// appendFiles writes the attachments of a message, if there are any.
func appendFiles(o *Object, files []attached.File) {
	if len(files) == 0 {
		return
	}
	o.Key("attachments")
	o.Bytes = append(o.Bytes, '[')
	for i, f := range files {
		if i > 0 {
			o.Bytes = append(o.Bytes, ',')
		}
		o.Bytes = AppendFile(o.Bytes, f)
	}
	o.Bytes = append(o.Bytes, ']')
}
