package window

import (
	"slices"

	"parley/conversation"
	"parley/conversation/transcript"
)

// Cache is the window of the log that models are shown. It is dropped
// when the session idles, and read again from the log when a model is asked.
type Cache struct {
	Transcript *transcript.Transcript  // nil while it is being read
	tail       []conversation.Event    // became durable meanwhile
	waiting    []conversation.AskModel // model calls that start when it was read
}

// Add takes events that have become durable.
func (c *Cache) Add(events []conversation.Event) {
	if c.Transcript == nil {
		c.tail = append(c.tail, events...)
		return
	}
	for _, e := range events {
		c.Transcript.Add(e)
	}
}

// Wait has a model call wait for the transcript.
func (c *Cache) Wait(ask conversation.AskModel) { c.waiting = append(c.waiting, ask) }

// Forget drops the model call of a step that waits: it is stopped.
func (c *Cache) Forget(step conversation.StepNumber) {
	if c != nil {
		c.waiting = slices.DeleteFunc(c.waiting, func(ask conversation.AskModel) bool { return ask.Step == step })
	}
}

// Fill takes the transcript that was read, and gives back what waits for it.
func (c *Cache) Fill(shown *transcript.Transcript) []conversation.AskModel {
	tail := c.tail
	c.Transcript, c.tail = shown, nil
	c.Add(tail)
	return c.Take()
}

// Take gives back the model calls that wait, once the transcript is there.
func (c *Cache) Take() []conversation.AskModel {
	if c == nil || c.Transcript == nil {
		return nil
	}
	waiting := c.waiting
	c.waiting = nil
	return waiting
}

// Waiting are the model calls that wait for the transcript.
func (c *Cache) Waiting() []conversation.AskModel { return c.waiting }
