package receipts

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
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
	Nudges     int     `json:"nudged_steps"`
	Steps      int     `json:"steps"` // model calls, those of delegates and repeated ones too
	Usage      usage   `json:"usage"`
	Cost       float64 `json:"cost,omitempty"`
	Seconds    float64 `json:"seconds"`

	// Of everyday conversations.
	Neither  int `json:"neither"`
	Unjudged int `json:"not_judged"`
	Twice    int `json:"shown_twice"`
	Odd      int `json:"odd_texts"`
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
	c.Nudges += b.Nudges
	c.Steps += b.Steps
	c.Usage.add(b.Usage)
	c.Cost += b.Cost
	c.Seconds += b.Seconds
	c.Neither += b.Neither
	c.Unjudged += b.Unjudged
	c.Twice += b.Twice
	c.Odd += b.Odd
}

// share is the share of true receipts in percent, of those that can be judged.
func (c *counts) share() float64 {
	judged := c.Messages - c.Neither - c.Unjudged
	if judged == 0 {
		return 0
	}
	return 100 * float64(c.True) / float64(judged)
}

// account is the report of one conversation.
type account struct {
	Name     string        `json:"name"`
	Run      int           `json:"run"` // from 1
	Session  string        `json:"session,omitempty"`
	Late     []int         `json:"late,omitempty"` // turns whose moment did not come
	Error    string        `json:"error,omitempty"`
	Judged   []judged      `json:"judged"`
	Everyday *everydayTalk `json:"everyday,omitempty"`
	counts
}

// report is what is said in the end.
type report struct {
	Model         string    `json:"model"`
	Seed          uint64    `json:"seed"`
	Total         counts    `json:"total"`
	Elapsed       float64   `json:"elapsed_seconds"` // conversations run side by side
	Everyday      []group   `json:"everyday,omitempty"`
	Conversations []account `json:"conversations"`
}

// total names the group of all.
const total = "all"

// group sums up the everyday conversations of a kind, a language or a setting, or all.
type group struct {
	Of string `json:"of"`
	counts
}

// prices are of a million tokens, in any currency.
type prices struct{ in, cached, out float64 }

func (p prices) known() bool { return p.in > 0 || p.out > 0 }

func (p prices) of(u usage) float64 {
	return (float64(u.Input-u.Cached)*p.in + float64(u.Cached)*p.cached + float64(u.Output)*p.out) / 1e6
}

// account sums a conversation up.
func (p *play) account(price prices, took time.Duration, err error) account {
	a := account{Name: p.Name, Session: p.session, Judged: p.judge(), Everyday: p.Everyday}
	for _, n := range p.late {
		a.Late = append(a.Late, n+1)
	}
	if err != nil {
		a.Error = err.Error()
	}
	h := p.history
	a.counts = counts{Messages: len(a.Judged), Joined: p.joined(), Nudged: h.nudged, Nudges: h.nudges, Steps: h.asked, Usage: h.used,
		Cost: price.of(h.used), Seconds: took.Seconds()}
	if p.Everyday != nil {
		a.Twice, a.Odd = p.twice(), p.odd()
	}
	for _, j := range a.Judged {
		switch j.Verdict {
		case verdictTrue:
			a.True++
		case verdictFalse:
			a.False++
		case verdictFailed:
			a.Failed++
		case verdictNeither:
			a.Neither++
		case verdictUnjudged:
			a.Unjudged++
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

// everyday sums up the everyday conversations.
func (r *report) everyday() []group {
	var groups []group
	all := group{Of: total}
	for _, of := range []func(*everydayTalk) string{
		func(e *everydayTalk) string { return e.Setting },
		func(e *everydayTalk) string { return e.Kind },
		func(e *everydayTalk) string { return e.Language },
	} {
		first := len(groups)
		all.counts = counts{}
		for i := range r.Conversations {
			c := &r.Conversations[i]
			if c.Everyday == nil {
				continue
			}
			all.add(c.counts)
			name := of(c.Everyday)
			at := slices.IndexFunc(groups[first:], func(g group) bool { return g.Of == name })
			if at < 0 {
				at = len(groups) - first
				groups = append(groups, group{Of: name})
			}
			groups[first+at].add(c.counts)
		}
		slices.SortFunc(groups[first:], func(a, b group) int { return strings.Compare(a.Of, b.Of) })
	}
	if len(groups) == 0 {
		return nil
	}
	return append(groups, all)
}

// column is one of a table.
type column struct {
	head string
	of   func(*counts) string
}

func count(of func(*counts) int) func(*counts) string {
	return func(c *counts) string { return strconv.Itoa(of(c)) }
}

// columns are those of the table of conversations, or of the everyday ones.
func columns(everyday bool, price prices) []column {
	messages := column{"messages", count(func(c *counts) int { return c.Messages })}
	right := column{"true", count(func(c *counts) int { return c.True })}
	failed := column{"failed", count(func(c *counts) int { return c.Failed })}
	all := []column{messages, right,
		{"false", count(func(c *counts) int { return c.False })},
		{"answered", count(func(c *counts) int { return c.Answered })},
		{"unanswered (missed)", func(c *counts) string { return fmt.Sprintf("%d (%d)", c.Unanswered, c.Missed) }},
		failed,
		{"joined answers", count(func(c *counts) int { return c.Joined })},
		{"nudged", count(func(c *counts) int { return c.Nudged })},
	}
	if everyday {
		all = []column{messages, right,
			{"false answered", count(func(c *counts) int { return c.False })},
			{"false unanswered", count(func(c *counts) int { return c.Missed })},
			{"unanswered", count(func(c *counts) int { return c.Unanswered - c.Missed })},
			failed,
			{"neither", count(func(c *counts) int { return c.Neither })},
			{"not judged", count(func(c *counts) int { return c.Unjudged })},
			{"shown twice", count(func(c *counts) int { return c.Twice })},
			{"odd texts", count(func(c *counts) int { return c.Odd })},
			{"nudged steps a message", func(c *counts) string { return fmt.Sprintf("%.2f", float64(c.Nudges)/float64(max(1, c.Messages))) }},
		}
	}
	all = append(all, column{"steps", count(func(c *counts) int { return c.Steps })},
		column{"tokens in (cached)", func(c *counts) string { return fmt.Sprintf("%d (%d)", c.Usage.Input, c.Usage.Cached) }},
		column{"out", func(c *counts) string { return strconv.FormatInt(c.Usage.Output, 10) }})
	if price.known() {
		all = append(all, column{"cost", func(c *counts) string { return fmt.Sprintf("%.4f", c.Cost) }})
	}
	return append(all, column{"s", func(c *counts) string { return fmt.Sprintf("%.1f", c.Seconds) }})
}

// rows writes a table.
func rows(b *strings.Builder, first string, columns []column, groups []group) {
	b.WriteString("| " + first + " |")
	for _, c := range columns {
		b.WriteString(" " + c.head + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---:|", len(columns)) + "\n")
	for i := range groups {
		name := groups[i].Of
		if name == total {
			name = "**" + name + "**"
		}
		b.WriteString("| " + name + " |")
		for _, c := range columns {
			b.WriteString(" " + c.of(&groups[i].counts) + " |")
		}
		b.WriteString("\n")
	}
}

// table prints the report for people.
func (r *report) table(out io.Writer, price prices) {
	var b strings.Builder
	fmt.Fprintf(&b, "\nmodel: %s, seed %d\n", r.Model, r.Seed)
	if groups := r.byName(); len(groups) > 0 {
		b.WriteString("\n")
		rows(&b, "conversation", columns(false, price), groups)
	}
	if len(r.Everyday) > 0 {
		b.WriteString("\n")
		rows(&b, "everyday", columns(true, price), r.Everyday)
	}
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

// byName sums up the runs of each conversation that is no everyday one.
func (r *report) byName() []group {
	var groups []group
	all := group{Of: total}
	for i := range r.Conversations {
		c := &r.Conversations[i]
		if c.Everyday != nil {
			continue
		}
		all.add(c.counts)
		at := slices.IndexFunc(groups, func(g group) bool { return g.Of == c.Name })
		if at < 0 {
			at = len(groups)
			groups = append(groups, group{Of: c.Name})
		}
		groups[at].add(c.counts)
	}
	if len(groups) == 0 {
		return nil
	}
	return append(groups, all)
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
		if j.Verdict == verdictTrue || j.Verdict == verdictNeither || j.Verdict == verdictUnjudged {
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
