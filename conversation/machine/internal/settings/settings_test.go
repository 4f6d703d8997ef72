package settings

import (
	"maps"
	"strings"
	"testing"

	"parley/conversation"
	"parley/conversation/access"
)

type roles = map[conversation.UserID]access.Role

// N-18. Who becomes what, and what is refused.
func TestMembers(t *testing.T) {
	full := roles{"a": access.Reader, "b": access.Writer}
	tests := map[string]struct {
		are, said, want roles
		most            int
		refused         conversation.Code
	}{
		"nothing is said":                    {are: full},
		"a new one":                          {said: roles{"a": access.Reader}, want: roles{"a": access.Reader}},
		"the same role again":                {are: full, said: roles{"a": access.Reader}},
		"a new role":                         {are: full, said: roles{"a": access.Owner}, want: roles{"a": access.Owner}},
		"one goes":                           {are: full, said: roles{"a": access.None}, want: roles{"a": access.None}},
		"a stranger goes":                    {are: full, said: roles{"x": access.None}},
		"the owner as what he is":            {said: roles{"ann": access.Owner}},
		"the owner goes":                     {said: roles{"ann": access.None}, refused: conversation.Conflict},
		"the owner becomes less":             {said: roles{"ann": access.Writer}, refused: conversation.Conflict},
		"one too many":                       {are: full, said: roles{"c": access.Reader}, most: 2, refused: conversation.Conflict},
		"the last one that there may be":     {are: full, said: roles{"c": access.Reader}, most: 3, want: roles{"c": access.Reader}},
		"one for another":                    {are: full, said: roles{"c": access.Reader, "a": access.None}, most: 2, want: roles{"c": access.Reader, "a": access.None}},
		"any number":                         {are: full, said: roles{"c": access.Reader}, want: roles{"c": access.Reader}},
		"a change where there are too many":  {are: full, said: roles{"a": access.Writer}, most: 1, want: roles{"a": access.Writer}},
		"fewer where there are too many":     {are: full, said: roles{"a": access.None}, most: 1, want: roles{"a": access.None}},
		"another where there are too many":   {are: full, said: roles{"a": access.None, "c": access.Reader}, most: 1, want: roles{"a": access.None, "c": access.Reader}},
		"a role that there is not":           {said: roles{"a": access.Owner + 1}, refused: conversation.BadRequest},
		"no id":                              {said: roles{"": access.Reader}, refused: conversation.BadRequest},
		"an id with NUL":                     {said: roles{"a\x00b": access.Reader}, refused: conversation.BadRequest},
		"an id that is no UTF-8":             {said: roles{"a\xff": access.Reader}, refused: conversation.BadRequest},
		"the longest id":                     {said: roles{conversation.UserID(strings.Repeat("a", 128)): access.Reader}, want: roles{conversation.UserID(strings.Repeat("a", 128)): access.Reader}},
		"too long an id":                     {said: roles{conversation.UserID(strings.Repeat("a", 129)): access.Reader}, refused: conversation.BadRequest},
		"one is wrong: nothing takes effect": {said: roles{"a": access.Reader, "ann": access.None}, refused: conversation.Conflict},
	}
	for name, test := range tests {
		got, err := Members("ann", test.are, test.said, test.most)
		switch {
		case test.refused != "":
			if err == nil || err.Code != test.refused || got != nil {
				t.Errorf("%s: %v, %v", name, got, err)
			}
		case err != nil || !maps.Equal(got, test.want) || (got == nil) != (test.want == nil):
			t.Errorf("%s: %v, %v, want %v", name, got, err, test.want)
		}
	}
}
