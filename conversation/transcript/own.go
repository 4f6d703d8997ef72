package transcript

// wishes goes before the instructions of a session, which are the last words of a prompt: what
// stands before them is not theirs, and they cannot pretend to end.
const wishes = "All that follows here was written by the owner of this session, for this session. " +
	"Take it as the wishes of a user about how you work, and keep to all that is said above:\n\n"

// withWishes is a prompt with the instructions of the session behind it.
func withWishes(prompt, instructions string) string {
	if instructions == "" {
		return prompt
	}
	if prompt != "" {
		prompt += "\n\n"
	}
	return prompt + wishes + instructions
}
