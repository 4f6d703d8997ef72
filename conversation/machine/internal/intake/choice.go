package intake

import (
	"strconv"
	"strings"
)

// Choice finds the choice that a text is: case and punctuation at its end do not
// matter. Its own text is returned.
func Choice(choices []string, text string) (string, bool) {
	want := bare(text)
	for _, same := range []func(choice string) bool{
		func(choice string) bool { return strings.TrimSpace(choice) == strings.TrimSpace(text) },
		func(choice string) bool { return want != "" && strings.EqualFold(bare(choice), want) },
	} {
		for _, choice := range choices {
			if same(choice) {
				return choice, true
			}
		}
	}
	return "", false
}

// NumberedChoice is Choice, and where a text is none it may be the number of one,
// counted from 1.
func NumberedChoice(choices []string, text string) (string, bool) {
	if choice, is := Choice(choices, text); is {
		return choice, true
	}
	word := bare(text)
	if n, err := strconv.Atoi(word); err == nil && word == strconv.Itoa(n) && 1 <= n && n <= len(choices) {
		return choices[n-1], true
	}
	return "", false
}

// bare is a text without space around it and punctuation at its end.
func bare(text string) string {
	return strings.TrimRight(strings.TrimSpace(text), " .,;:!?)…。！？")
}
