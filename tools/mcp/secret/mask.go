package secret

import (
	"regexp"
	"strings"
)

// Mask stands where a secret was.
const Mask = "***"

var (
	userinfo  = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)([^/?#\s"'<>@]*:[^\s"'<>]*|[^/?#\s"'<>@:]*)@`)
	parameter = regexp.MustCompile(`([?&;])([^=&;#\s]+)=([^&;#\s]*)`)
	known     = regexp.MustCompile(`(?i:^(bearer|basic)\s+\S)|\b[spr]k-\S|\bgh[pousr]_\w|\bgithub_pat_\w|\bglpat-\w|\bxox[abeprs]-\w|\bAKIA[0-9A-Z]{8}|\beyJ[\w-]+\.|-----BEGIN [A-Z ]*PRIVATE KEY`)
	flag      = regexp.MustCompile(`(?i)authorization|cookie|token|secret|passw|pass$|pwd|credential|api-?_?key`)
	random    = regexp.MustCompile(`[A-Za-z0-9_-]{20,}`)
	setting   = regexp.MustCompile(`^(-*[A-Za-z][A-Za-z0-9._-]*)(=|:\s*)(.*)$`)
)

// Bare is true for a text with a secret that stands in it as it is: the password of an
// address ("scheme://user:password@host"), or a secret parameter of one. References do not.
func Bare(text string) bool { return maskAddresses(text) != text }

// WithoutPasswords is a text with the secrets of the addresses in it masked, for people.
func WithoutPasswords(text string) string { return maskAddresses(text) }

// maskAddresses is a text with the passwords of the addresses in it masked.
func maskAddresses(text string) string {
	if !strings.Contains(text, "://") {
		return text
	}
	text = userinfo.ReplaceAllStringFunc(text, func(found string) string {
		parts := userinfo.FindStringSubmatch(found)
		user, password, both := strings.Cut(parts[2], ":")
		switch {
		case both && (password == "" || password == Mask || onlyReferences(password)):
			return found
		case both:
			return parts[1] + user + ":" + Mask + "@"
		case !strings.HasPrefix(strings.ToLower(parts[1]), "http"), user == "", user == Mask, onlyReferences(user):
			return found // ssh://git@host names a user; https://TOKEN@host is a token
		}
		return parts[1] + Mask + "@"
	})
	return parameter.ReplaceAllStringFunc(text, func(found string) string {
		parts := parameter.FindStringSubmatch(found)
		if !Certain(parts[2]) || parts[3] == "" || parts[3] == Mask || onlyReferences(parts[3]) {
			return found
		}
		return parts[1] + parts[2] + "=" + Mask
	})
}

// onlyReferences is true for a text that is references and nothing else.
func onlyReferences(text string) bool {
	text = Spelled(text)
	return len(References(text)) > 0 && Replace(text, func(Reference) string { return "" }) == ""
}

// Known is true for a value that is written as keys of well-known services are.
func Known(value string) bool {
	return known.MatchString(Replace(Spelled(value), func(Reference) string { return "" }))
}

// looksRandom is true for a value that nobody would think of: letters among digits, long.
func looksRandom(value string) bool {
	for _, word := range random.FindAllString(value, -1) {
		digits := 0
		for _, c := range word {
			if c >= '0' && c <= '9' {
				digits++
			}
		}
		if digits >= 4 && digits < len(word) {
			return true
		}
	}
	return false
}

// Masked is a value for people to read: one that has the name of a secret or looks like
// one is masked, and so are passwords in addresses; references stay.
func Masked(name, value string) string {
	bare := Replace(Spelled(value), func(Reference) string { return "" })
	if value != "" && Certain(name) && bare == Spelled(value) {
		return Mask
	}
	shown := maskAddresses(value)
	if Known(shown) || shown == value && looksRandom(bare) {
		return Mask
	}
	return shown
}

// MaskedArgs are the arguments of a program for people to read: what follows a flag whose
// name is that of a secret, or its "=", is masked, and so is "Name: value" of such a header.
func MaskedArgs(args []string) []string { return maskArgs(args, Masked) }

// BareArg is the place of the first argument that is a secret without doubt; -1 = there
// is none.
func BareArg(args []string) int {
	shown := maskArgs(args, func(name, value string) string {
		if flag.MatchString(name) && value != "" && len(References(Spelled(value))) == 0 || Known(value) {
			return Mask
		}
		return maskAddresses(value)
	})
	for i := range args {
		if shown[i] != args[i] {
			return i
		}
	}
	return -1
}

// maskArgs masks the values among arguments; mask gets the name that stands before one.
func maskArgs(args []string, mask func(name, value string) string) []string {
	shown := make([]string, 0, len(args))
	before := "" // the flag that stands before
	for _, arg := range args {
		name := before
		before = ""
		if setting.MatchString(arg) {
			arg = maskSetting(arg, mask)
		} else if strings.HasPrefix(arg, "-") {
			before = strings.TrimLeft(arg, "-")
			shown = append(shown, arg)
			continue
		}
		if name != "" && !strings.HasPrefix(arg, "-") {
			arg = mask(name, arg)
		} else if !setting.MatchString(arg) {
			arg = mask("", arg)
		}
		shown = append(shown, arg)
	}
	return shown
}

// maskSetting masks the value of "name=value" and "Name: value".
func maskSetting(arg string, mask func(name, value string) string) string {
	parts := setting.FindStringSubmatch(arg)
	if parts == nil || strings.HasPrefix(parts[3], "//") && parts[2] == ":" { // an address
		return mask("", arg)
	}
	if setting.MatchString(parts[3]) {
		if inner := maskSetting(parts[3], mask); inner != parts[3] { // --env=PGPASS=x
			return parts[1] + parts[2] + inner
		}
	}
	return parts[1] + parts[2] + mask(parts[1], parts[3])
}
