package conform

import (
	"bytes"
	"encoding/json"
	"maps"
)

// message is a frame on its way through the proxy.
type message struct {
	raw    []byte
	object map[string]any // nil = it is no JSON object
}

func parse(raw []byte) message {
	m := message{raw: raw}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&m.object) != nil {
		m.object = nil
	}
	return m
}

func made(object map[string]any) message {
	raw, err := json.Marshal(object)
	if err != nil {
		panic(err) // of strings, numbers and maps
	}
	return parse(raw)
}

func (m message) text(key string) string {
	s, _ := m.object[key].(string)
	return s
}

// seq is the event's number; 0 = it is no durable event.
func (m message) seq() int64 {
	n, _ := m.object["seq"].(json.Number)
	i, _ := n.Int64()
	return i
}

func (m message) data(key string) string {
	data, _ := m.object["data"].(map[string]any)
	s, _ := data[key].(string)
	return s
}

// number is an integer of the frame's data; 0 = there is none.
func (m message) number(key string) int64 {
	data, _ := m.object["data"].(map[string]any)
	n, _ := data[key].(json.Number)
	i, _ := n.Int64()
	return i
}

// with is the frame with some of its data changed; nil takes a field out.
func (m message) with(changes map[string]any) message {
	object := maps.Clone(m.object)
	data, _ := object["data"].(map[string]any)
	data = maps.Clone(data)
	if data == nil {
		data = make(map[string]any)
	}
	for k, v := range changes {
		if v == nil {
			delete(data, k)
		} else {
			data[k] = v
		}
	}
	object["data"] = data
	return made(object)
}
