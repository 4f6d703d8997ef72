package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// report counts outcomes and prints them.
type report struct {
	out      io.Writer
	total    int
	outcomes []outcome
	broken   []error // entries that are stale, and runs that could not be made
}

// word says how an outcome stands to what the list expects.
func (o outcome) word() string {
	switch {
	case o.verdict == invalid:
		return "DOES NOT COMPILE"
	case o.verdict == killed && o.mutant.marked():
		return "KILLED, BUT MARKED"
	case o.verdict == killed:
		return "killed"
	case o.mutant.equivalent != "":
		return "equivalent"
	case o.mutant.untested != "":
		return "untested"
	default:
		return "SURVIVED"
	}
}

// expected tells whether the outcome is what the list says.
func (o outcome) expected() bool {
	return o.verdict == killed && !o.mutant.marked() || o.verdict == survived && o.mutant.marked()
}

// progress is printed as soon as a mutant is through.
func (r *report) progress(o outcome) {
	r.outcomes = append(r.outcomes, o)
	line := fmt.Sprintf("%3d/%d  %-12s %s: %s", len(r.outcomes), r.total, o.word(), o.mutant.list, o.mutant.id)
	if o.by != "" {
		line += "  ← " + o.by
	}
	fmt.Fprintf(r.out, "%s  (%s)\n", line, o.took.Round(100*time.Millisecond))
}

// ok tells whether every entry fitted and everything went as the lists say.
func (r *report) ok() bool {
	return len(r.broken) == 0 && !slices.ContainsFunc(r.outcomes, func(o outcome) bool { return !o.expected() })
}

// print ends a run: what nobody expected with the reasons, then the table.
func (r *report) print() {
	for _, err := range r.broken {
		fmt.Fprintf(r.out, "\nSTALE OR NOT RUN: %v\n", err)
	}
	for _, o := range r.outcomes {
		if o.expected() {
			continue
		}
		fmt.Fprintf(r.out, "\n%s: %s (%s, %s)\n  breaks: %s\n", o.word(), o.mutant.id, o.mutant.file, o.mutant.where, o.mutant.breaks)
		if o.by != "" {
			fmt.Fprintf(r.out, "  by: %s\n", o.by)
		}
		for _, line := range []struct{ sign, text string }{{"-", o.mutant.old}, {"+", o.mutant.new}} {
			for l := range strings.Lines(line.text) {
				fmt.Fprintf(r.out, "  %s %s", line.sign, l)
			}
		}
	}
	if len(r.outcomes) > 0 {
		fmt.Fprintln(r.out)
		r.table()
	}
}

// count is one row of the table.
type count struct {
	mutants, killed, survived, equivalent, untested, wrong int
}

func (c *count) add(o outcome) {
	c.mutants++
	switch {
	case o.verdict == invalid || o.verdict == killed && o.mutant.marked():
		c.wrong++
	case o.verdict == killed:
		c.killed++
	case o.mutant.equivalent != "":
		c.equivalent++
	case o.mutant.untested != "":
		c.untested++
	default:
		c.survived++
	}
}

func (r *report) table() {
	rows, all := map[string]*count{}, count{}
	var lists []string
	for _, o := range r.outcomes {
		if rows[o.mutant.list] == nil {
			rows[o.mutant.list] = &count{}
			lists = append(lists, o.mutant.list)
		}
		rows[o.mutant.list].add(o)
		all.add(o)
	}
	slices.Sort(lists)
	w := tabwriter.NewWriter(r.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, c count) {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t\n", name, c.mutants, c.killed, c.survived, c.equivalent, c.untested, c.wrong)
	}
	fmt.Fprintln(w, "room\tmutants\tkilled\tsurvived\tequivalent\tuntested\twrong entry\t")
	for _, name := range lists {
		row(name, *rows[name])
	}
	row("all", all)
	_ = w.Flush() // to a terminal
}
