package protocol

// Offer is what a server has to choose from. It is in the answer to hello, and does not
// change while the server runs.
type Offer struct {
	Agents   []OfferedAgent // whom a session may be made for, the default one first
	Modes    []string       // that a session or a message may choose
	Starters []string       // texts to begin with, for somebody who does not know what to say
}

// OfferedAgent is an agent for whom a session may be made.
type OfferedAgent struct {
	Name        string
	Description string
	Model       string // its label
	Like        string // the agent that it is like, on another model; "" = it is one of its own
}

// Append writes the members of the answer to hello.
func (f Offer) Append(o *Object) {
	AppendList(o, "agents", f.Agents, func(o *Object, a OfferedAgent) {
		o.Text("name", a.Name)
		o.Optional("description", a.Description)
		o.Text("model", a.Model)
		o.Optional("like", a.Like)
	})
	o.Key("modes")
	o.Bytes = appendStrings(o.Bytes, f.Modes)
	o.Key("starters")
	o.Bytes = appendStrings(o.Bytes, f.Starters)
}
