package metrics

import "github.com/prometheus/client_golang/prometheus"

// ModelLimits are the counts of a model within limits (rate, max_concurrent).
type ModelLimits struct {
	Model   string // the configuration's name
	Running int64
	Waiting int64
	Calls   int64
	Waited  int64
	GaveUp  int64
}

// WatchModelLimits shows the counts of models within limits with every scrape.
func WatchModelLimits(r prometheus.Registerer, read func() []ModelLimits) {
	type row = ModelLimits
	watch(r, &rows[row]{read: read, labels: func(m row) []string { return []string{m.Model} }, columns: []column[row]{
		gaugeOf("model_limit_calls_running", "Calls of a model with limits that run.",
			func(m row) float64 { return float64(m.Running) }, "model"),
		gaugeOf("model_limit_calls_waiting", "Calls that wait for their turn at a model's limits.",
			func(m row) float64 { return float64(m.Waiting) }, "model"),
		counterOf("model_limit_calls_total", "Calls that a model's limits let through.", func(m row) int64 { return m.Calls }, "model"),
		counterOf("model_limit_waits_total", "Of the calls let through, those that had to wait.", func(m row) int64 { return m.Waited }, "model"),
		counterOf("model_limit_given_up_total", "Calls that ended while they waited for their turn.", func(m row) int64 { return m.GaveUp }, "model"),
	}})
}

// ModelFallback are the counts of one fallback of a model.
type ModelFallback struct {
	Model, Fallback string // the configuration's names
	Calls           int64
	Answers         int64
}

// WatchModelFallbacks shows with every scrape which fallbacks were used.
func WatchModelFallbacks(r prometheus.Registerer, read func() []ModelFallback) {
	type row = ModelFallback
	watch(r, &rows[row]{read: read, labels: func(m row) []string { return []string{m.Model, m.Fallback} }, columns: []column[row]{
		counterOf("model_fallback_calls_total", "Times that a fallback was asked instead of the model.",
			func(m row) int64 { return m.Calls }, "model", "fallback"),
		counterOf("model_fallback_answers_total", "Of those times, how often it gave a whole answer.",
			func(m row) int64 { return m.Answers }, "model", "fallback"),
	}})
}

// ModelWindow are the counts of a model that says what it can hold (context).
type ModelWindow struct {
	Model string // the configuration's name
	Cut   int64
	Over  int64
}

// WatchModelWindows shows with every scrape which models were shown less than others.
func WatchModelWindows(r prometheus.Registerer, read func() []ModelWindow) {
	type row = ModelWindow
	watch(r, &rows[row]{read: read, labels: func(m row) []string { return []string{m.Model} }, columns: []column[row]{
		counterOf("model_window_cuts_total", "Requests that were cut for a model that holds less than the agent's own.",
			func(m row) int64 { return m.Cut }, "model"),
		counterOf("model_window_over_total", "Of those, requests that were sent too large: nothing more could be left out.",
			func(m row) int64 { return m.Over }, "model"),
	}})
}

// ModelFiles counts what became of files that are attached to messages, for a model.
type ModelFiles struct {
	Model   string // the configuration's name
	Outcome string
	Files   int64
}

// WatchModelFiles shows with every scrape what models were given of what is attached to messages.
func WatchModelFiles(r prometheus.Registerer, read func() []ModelFiles) {
	type row = ModelFiles
	watch(r, &rows[row]{read: read, labels: func(m row) []string { return []string{m.Model, m.Outcome} }, columns: []column[row]{
		counterOf("model_files_total", "Files of messages in requests to a model, each time one is made: shown as a picture or text (text_cut: of these, head and tail), or only named, and why.",
			func(m row) int64 { return m.Files }, "model", "outcome"),
	}})
}

// CommandAgent are the counts of a command-line agent.
type CommandAgent struct {
	Model    string // the configuration's name
	Running  int64
	Waiting  int64
	Started  int64
	Failed   int64
	Timeouts int64
	Kills    int64
	Strays   int64
	Cut      int64
}

// WatchCommandAgents shows the counts of command-line agents with every scrape.
func WatchCommandAgents(r prometheus.Registerer, read func() []CommandAgent) {
	type row = CommandAgent
	watch(r, &rows[row]{read: read, labels: func(a row) []string { return []string{a.Model} }, columns: []column[row]{
		gaugeOf("command_agent_processes", "Processes of a command-line agent that have not gone, or whose own processes have not.",
			func(a row) float64 { return float64(a.Running) }, "model"),
		gaugeOf("command_agent_calls_waiting", "Calls that wait because as many processes run as may.",
			func(a row) float64 { return float64(a.Waiting) }, "model"),
		counterOf("command_agent_starts_total", "Processes of a command-line agent that were started.", func(a row) int64 { return a.Started }, "model"),
		counterOf("command_agent_failures_total", "Calls of a command-line agent that failed, timeouts included.", func(a row) int64 { return a.Failed }, "model"),
		counterOf("command_agent_timeouts_total", "Processes that ran into the timeout.", func(a row) int64 { return a.Timeouts }, "model"),
		counterOf("command_agent_kills_total", "Processes that did not stop when asked to, and were killed.", func(a row) int64 { return a.Kills }, "model"),
		counterOf("command_agent_strays_total", "Processes that had left their agent's process group and were killed with it.", func(a row) int64 { return a.Strays }, "model"),
		counterOf("command_agent_cut_answers_total", "Answers that lost something at max_output.", func(a row) int64 { return a.Cut }, "model"),
	}})
}
