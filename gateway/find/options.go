package find

// Options of searches.
type Options struct {
	Messages bool `key:"search.messages"`                             // whether messages are searched; titles always are
	Words    int  `key:"limits.search_words" min:"1" max:"100"`       // of one query
	Sessions int  `key:"limits.search_sessions" min:"1" max:"100000"` // that one request looks at
	Texts    int  `key:"limits.search_texts" min:"1" max:"10000000"`  // the same, of messages and parts
	AtOnce   int  `key:"limits.searches_at_once" min:"1" max:"1024"`  // searches in messages that run at the same time
}

// Defaults are the options of a configuration that says nothing.
func Defaults() Options {
	return Options{Messages: true, Words: 16, Sessions: 5000, Texts: 200_000, AtOnce: 2}
}

func (o Options) filled() Options {
	d := Defaults()
	if o == (Options{}) {
		return d
	}
	for _, x := range []struct {
		is *int
		by int
	}{{&o.Words, d.Words}, {&o.Sessions, d.Sessions}, {&o.Texts, d.Texts}, {&o.AtOnce, d.AtOnce}} {
		if *x.is <= 0 {
			*x.is = x.by
		}
	}
	return o
}
