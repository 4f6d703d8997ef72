package modelstest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Column holds the results of one adapter: a line of the suite's table for each case.
type Column struct {
	Adapter string
	Cases   []Case
}

// Case is one case of the suite.
type Case struct {
	Name   string
	Passed bool
}

func (c *Column) run(t *testing.T, name string, f func(t *testing.T)) {
	c.Cases = append(c.Cases, Case{Name: name, Passed: t.Run(name, f)})
}

// add takes the cases of another column, under a name.
func (c *Column) add(name string, other Column) {
	for _, o := range other.Cases {
		o.Name = name + o.Name
		c.Cases = append(c.Cases, o)
	}
}

// Table returns the table adapter × case, as Markdown. A case that an adapter does
// not have is left empty.
func Table(columns ...Column) string {
	var names []string
	for _, c := range columns {
		for _, one := range c.Cases {
			if !slices.Contains(names, one.Name) {
				names = append(names, one.Name)
			}
		}
	}
	var b strings.Builder
	b.WriteString("| case |")
	for _, c := range columns {
		fmt.Fprintf(&b, " %s |", c.Adapter)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for _, name := range names {
		fmt.Fprintf(&b, "| %s |", name)
		for _, c := range columns {
			mark := ""
			for _, one := range c.Cases {
				if one.Name == name && mark != "FAIL" {
					mark = "pass"
					if !one.Passed {
						mark = "FAIL"
					}
				}
			}
			fmt.Fprintf(&b, " %s |", mark)
		}
		b.WriteString("\n")
	}
	return b.String()
}
