package receipts

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// counts are what is reported of one conversation, and of all.
type counts struct {
	Messages   int     `json:"messages"`
	True       int     `json:"true"`
	False      int     `json:"false"`
	Answered   int     `json:"answered"`
	Unanswered int     `json:"unanswered"` // missed and open ones too
	Missed     int     `json:"missed"`
	Failed     int     `json:"failed"`
	Joined     int     `json:"joined_answers"` // parts that answer several messages
	Nudged     int     `json:"nudged"`
	Steps      int     `json:"steps"` // model calls, those of delegates and repeated ones too
	Usage      usage   `json:"usage"`
	Cost       float64 `json:"cost,omitempty"`
	Seconds    float64 `json:"seconds"`
}

func (c *counts) add(b counts) {
	c.Messages += b.Messages
	c.True += b.True
	c.False += b.False
	c.Answered += b.Answered
	c.Unanswered += b.Unanswered
	c.Missed += b.Missed
	c.Failed += b.Failed
	c.Joined += b.Joined
	c.Nudged += b.Nudged
	c.Steps += b.Steps
	c.Usage.add(b.Usage)
	c.Cost += b.Cost
	c.Seconds += b.Seconds
}

// share is the share of true receipts in percent.
func (c *counts) share() float64 {
	if c.Messages == 0 {
		return 0
	}
	return 100 * float64(c.True) / float64(c.Messages)
}

// account is the report of one conversation.
type account struct {
	Name    string   `json:"name"`
	Run     int      `json:"run"` // from 1
	Session string   `json:"session,omitempty"`
	Late    []int    `json:"late,omitempty"` // turns whose moment did not come
	Error   string   `json:"error,omitempty"`
	Judged  []judged `json:"judged"`
	counts
}

// report is what is said in the end.
type report struct {
	Model         string    `json:"model"`
	Seed          uint64    `json:"seed"`
	Total         counts    `json:"total"`
	Elapsed       float64   `json:"elapsed_seconds"` // conversations run side by side
	Conversations []account `json:"conversations"`
}

// prices are of a million tokens, in any currency.
type prices struct{ in, cached, out float64 }

func (p prices) known() bool { return p.in > 0 || p.out > 0 }

func (p prices) of(u usage) float64 {
	return (float64(u.Input-u.Cached)*p.in + float64(u.Cached)*p.cached + float64(u.Output)*p.out) / 1e6
}

// account sums a conversation up.
func (p *play) account(price prices, took time.Duration, err error) account {
	a := account{Name: p.Name, Session: p.session, Judged: p.judge()}
	for _, n := range p.late {
		a.Late = append(a.Late, n+1)
	}
	if err != nil {
		a.Error = err.Error()
	}
	h := p.history
	a.counts = counts{Messages: len(a.Judged), Joined: p.joined(), Nudged: h.nudged, Steps: h.asked, Usage: h.used,
		Cost: price.of(h.used), Seconds: took.Seconds()}
	for _, j := range a.Judged {
		switch j.Verdict {
		case verdictTrue:
			a.True++
		case verdictFalse:
			a.False++
		case verdictFailed:
			a.Failed++
		case verdictMissed:
			a.Missed++
			a.Unanswered++
		default:
			a.Unanswered++
		}
		if j.How == answered {
			a.Answered++
		}
	}
	return a
}

func (a *account) line() string {
	s := fmt.Sprintf("%s: %d of %d true, %.1f s", a.Name, a.True, a.Messages, a.Seconds)
	if a.Error != "" {
		s += ", " + a.Error
	}
	return s
}

// table prints the report for people.
func (r *report) table(out io.Writer, price prices) {
	var b strings.Builder
	cost, rule := "", ""
	if price.known() {
		cost, rule = " cost |", "---:|"
	}
	fmt.Fprintf(&b, "\nmodel: %s, seed %d\n\n", r.Model, r.Seed)
	b.WriteString("| conversation | messages | true | false | answered | unanswered (missed) | failed | joined answers | nudged | steps | tokens in (cached) | out |" + cost + " s |\n")
	b.WriteString("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|" + rule + "---:|\n")
	row := func(name string, c *counts) {
		money := ""
		if price.known() {
			money = fmt.Sprintf(" %.4f |", c.Cost)
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d (%d) | %d | %d | %d | %d | %d (%d) | %d |%s %.1f |\n", name, c.Messages, c.True, c.False, c.Answered,
			c.Unanswered, c.Missed, c.Failed, c.Joined, c.Nudged, c.Steps, c.Usage.Input, c.Usage.Cached, c.Usage.Output, money, c.Seconds)
	}
	for _, c := range r.byName() {
		row(c.Name, &c.counts)
	}
	row("**all**", &r.Total)
	fmt.Fprintf(&b, "\n%.1f %% of the receipts are true.", r.Total.share())
	if r.Total.Usage.Estimated {
		b.WriteString(" Some tokens are estimated: the provider did not count them.")
	}
	b.WriteString("\n")
	for i := range r.Conversations {
		r.Conversations[i].remarks(&b)
	}
	if late := r.late(); late != "" {
		fmt.Fprintf(&b, "\nMoments that did not come, so the turn was taken when nothing ran: %s.\n", late)
	}
	fmt.Fprintln(out, strings.TrimSuffix(b.String(), "\n"))
}

// byName sums up the runs of each conversation.
func (r *report) byName() []*account {
	var all []*account
	at := map[string]*account{}
	for i := range r.Conversations {
		c := &r.Conversations[i]
		if at[c.Name] == nil {
			at[c.Name] = &account{Name: c.Name}
			all = append(all, at[c.Name])
		}
		at[c.Name].add(c.counts)
	}
	return all
}

// late names the turns whose moment did not come.
func (r *report) late() string {
	var all []string
	for i := range r.Conversations {
		for _, n := range r.Conversations[i].Late {
			all = append(all, fmt.Sprintf("%s (turn %d)", r.Conversations[i].Name, n))
		}
	}
	return strings.Join(all, ", ")
}

// remarks prints what is not as it should be.
func (a *account) remarks(b *strings.Builder) {
	if a.Error != "" {
		fmt.Fprintf(b, "- %s: %s\n", a.Name, a.Error)
	}
	for _, j := range a.Judged {
		if j.Verdict == verdictTrue {
			continue
		}
		fmt.Fprintf(b, "- %s, turn %d %q: %s, %s", a.Name, j.Turn, excerpt(j.Text), j.Verdict, j.Why)
		if j.Part != "" {
			fmt.Fprintf(b, ": %q", excerpt(j.Part))
		}
		if j.Evidence != "" {
			fmt.Fprintf(b, " (%s)", j.Evidence)
		}
		b.WriteString("\n")
	}
}

func excerpt(s string) string {
	const longest = 80
	if r := []rune(s); len(r) > longest {
		return string(r[:longest]) + "…"
	}
	return s
}

func (r *report) json(out io.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}
