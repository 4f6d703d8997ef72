package conversation

// A FieldError is one thing that is wrong with the options of a package, by the
// key of the configuration. Packages that can be configured return a list of
// them, so that whoever reads the configuration can say where the key was set.
//
// The fields of such options carry tags:
//
//	key      the dotted key, "inbox.mode"; a field without it is not configured
//	choices  the texts that are allowed, with commas between them
//	min, max the bounds, written as in the configuration: "1ms", "0", "256"
//	unit     "bytes": the number is a size and may be written as "256 KiB"
//	auto     the number that the text "auto" stands for
type FieldError struct {
	Key      string // of the value that is wrong; never empty
	Sentence string // what the value must be, without the key and the value; "" if AtMost says it
	AtMost   string // the key whose value is the upper bound of Key's; "" = none
}

// Error is the key and the sentence.
func (e FieldError) Error() string {
	if e.AtMost != "" {
		return e.Key + ": must be at most " + e.AtMost
	}
	return e.Key + ": " + e.Sentence
}
