package main

import (
	"regexp"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/bargauge"
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

func init() { plugins.RegisterDefaultPlugins() } // without it panels and queries are read back as nothing

// A board is one dashboard: rows of panels, laid out from left to right.
type board struct {
	file, uid, title, about string
	rows                    []row
}

type row struct {
	title  string
	panels []panel
}

type kind int

const (
	lines  kind = iota // a time series
	number             // one big number
	bars               // one bar for each series, of now
	rows               // a table, of now
)

type panel struct {
	kind    kind
	title   string
	about   string // what it means, and what is normal
	unit    string
	queries []query
	stacked bool
	alert   string  // the alert whose section of the runbook helps
	warn    float64 // a number from here on is orange; 0 = never
	bad     float64 // and from here on red; 0 = never
	low     bool    // it is red below bad, not above
	width   uint32  // of 24; 0 = a number has 4, all others 8
}

type query struct {
	expr, legend string
	exemplars    bool
}

// names are the metrics in an expression, with the matchers they have already.
var names = regexp.MustCompile(`(^|[^:\w"])((?:parley|process|go)_[a-z0-9_]+)(\{[^}]*\})?`)

// chosen narrows every metric of an expression to the jobs and instances that
// were chosen on the dashboard, and gives [r] Grafana's interval for rates.
func chosen(expr string) string {
	expr = names.ReplaceAllStringFunc(expr, func(found string) string {
		part := names.FindStringSubmatch(found)
		own := strings.Trim(part[3], "{}")
		if own != "" {
			own = "," + own
		}
		return part[1] + part[2] + `{job=~"$job",instance=~"$instance"` + own + `}`
	})
	return strings.ReplaceAll(expr, "[r]", "[$__rate_interval]")
}

func q(expr, legend string) query { return query{expr: chosen(expr), legend: legend} }

// rate is what a counter does in a second, by its labels.
func rate(metric string, by ...string) query {
	if len(by) == 0 {
		return q("sum(rate("+metric+"[r]))", "all")
	}
	return q("sum by ("+strings.Join(by, ", ")+") (rate("+metric+"[r]))", "{{"+strings.Join(by, "}} {{")+"}}")
}

// rare is rate for what a healthy server never does: without a series it is 0,
// so that an empty panel always means a broken query.
func rare(metric string, by ...string) query {
	rated := rate(metric, by...)
	if len(by) == 0 {
		rated.expr += " or vector(0)"
		return rated
	}
	rated.expr += ` or on() label_replace(vector(0), "` + by[0] + `", "none", "", "")`
	return rated
}

// times are the quantiles of a histogram; seconds have exemplars, which lead to traces.
func times(metric string) []query {
	name, matchers, _ := strings.Cut(metric, "{")
	if matchers != "" {
		matchers = "{" + matchers
	}
	at := func(quantile, legend string) query {
		one := q("histogram_quantile("+quantile+", sum by (le) (rate("+name+"_bucket"+matchers+"[r])))", legend)
		one.exemplars = true
		return one
	}
	return []query{at("0.5", "p50"), at("0.9", "p90"), at("0.99", "p99")}
}

// slowest is the 99th percentile by labels, of those that have any (others are NaN).
func slowest(metric string, by ...string) []query {
	one := q("histogram_quantile(0.99, sum by (le, "+strings.Join(by, ", ")+") (rate("+metric+"_bucket[r]))) >= 0", "{{"+strings.Join(by, "}} {{")+"}}")
	one.exemplars = true
	return []query{one}
}

var datasource = common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("$datasource")}

func (b board) build(runbook string) (dashboard.Dashboard, error) {
	made := dashboard.NewDashboardBuilder(b.title).
		Uid(b.uid).Description(b.about).Tags([]string{"parley"}).
		Time("now-1h", "now").Refresh("30s").Timezone(common.TimeZoneBrowser).
		Tooltip(dashboard.DashboardCursorSyncCrosshair).
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type("prometheus")).
		WithVariable(choice("job", "Job", "label_values(parley_sessions_active, job)")).
		WithVariable(choice("instance", "Instance", `label_values(parley_sessions_active{job=~"$job"}, instance)`)).
		WithVariable(dashboard.NewConstantVariableBuilder("runbook").Label("Runbook").
			Description("Where docs/OPERATIONS.md is shown to your operators.").Value(text(runbook))).
		Link(dashboard.NewDashboardLinkBuilder("parley").Type(dashboard.DashboardLinkTypeDashboards).
			Tags([]string{"parley"}).AsDropdown(false).IncludeVars(true).KeepTime(true)).
		Link(dashboard.NewDashboardLinkBuilder("Runbook").Type(dashboard.DashboardLinkTypeLink).
			Url("${runbook}#alerts").Icon("doc").TargetBlank(true).Tooltip("What each alert means, and what to do")).
		Annotation(dashboard.NewAnnotationQueryBuilder().Name("Alerts").Datasource(datasource).Enable(true).
			IconColor("red").Expr(`ALERTS{alertname=~"Parley.*",alertstate="firing",job=~"$job|"}`).
			TitleFormat("{{alertname}}").TextFormat("{{instance}}"))
	y, id := uint32(0), uint32(0)
	for _, r := range b.rows {
		id++
		made.WithRow(dashboard.NewRowBuilder(r.title).Id(id).GridPos(dashboard.GridPos{X: 0, Y: y, W: 24, H: 1}))
		y++
		x, tallest := uint32(0), uint32(0)
		for _, p := range r.panels {
			w, h := p.size()
			if x+w > 24 {
				x, y, tallest = 0, y+tallest, 0
			}
			id++
			made.WithPanel(p.build(id, dashboard.GridPos{X: x, Y: y, W: w, H: h}))
			x, tallest = x+w, max(tallest, h)
		}
		y += tallest
	}
	return made.Build()
}

func text(s string) dashboard.StringOrMap { return dashboard.StringOrMap{String: &s} }

// choice is a variable for some or all values of a label.
func choice(name, label, values string) *dashboard.QueryVariableBuilder {
	all := dashboard.VariableOption{
		Text:  dashboard.StringOrArrayOfString{ArrayOfString: []string{"All"}},
		Value: dashboard.StringOrArrayOfString{ArrayOfString: []string{"$__all"}},
	}
	return dashboard.NewQueryVariableBuilder(name).Label(label).Datasource(datasource).Query(text(values)).
		Multi(true).IncludeAll(true).AllValue(".*").Current(all).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Sort(dashboard.VariableSortAlphabeticalAsc)
}

func (p panel) size() (w, h uint32) {
	w, h = 8, 8
	if p.kind == number {
		w, h = 4, 4
	}
	if p.width > 0 {
		w = p.width
	}
	return w, h
}

func (p panel) steps() *dashboard.ThresholdsConfigBuilder {
	step := func(from float64, color string) dashboard.Threshold {
		return dashboard.Threshold{Value: &from, Color: color}
	}
	list := []dashboard.Threshold{{Color: "green"}} // without a value: from the lowest on
	switch {
	case p.low:
		list = []dashboard.Threshold{{Color: "red"}, step(p.bad, "green")}
	case p.bad > 0 || p.warn > 0:
		if p.warn > 0 {
			list = append(list, step(p.warn, "orange"))
		}
		if p.bad > 0 {
			list = append(list, step(p.bad, "red"))
		}
	}
	return dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps(list)
}

// targets are the panel's queries; a panel of now asks for one instant.
func (p panel) targets() []cog.Builder[variants.Dataquery] {
	var list []cog.Builder[variants.Dataquery]
	for i, one := range p.queries {
		made := prometheus.NewDataqueryBuilder().Datasource(datasource).Expr(one.expr).LegendFormat(one.legend).RefId(string(rune('A' + i)))
		switch p.kind {
		case lines:
			made.Range().Exemplar(one.exemplars)
		case number:
			made.Range() // the line behind the number
		case bars:
			made.Instant()
		case rows:
			made.Instant().Format(prometheus.PromQueryFormatTable)
		}
		list = append(list, made)
	}
	return list
}

func (p panel) links() []cog.Builder[dashboard.DashboardLink] {
	if p.alert == "" {
		return nil
	}
	return []cog.Builder[dashboard.DashboardLink]{
		dashboard.NewDashboardLinkBuilder("Runbook: " + p.alert).Type(dashboard.DashboardLinkTypeLink).
			Url("${runbook}#" + strings.ToLower(p.alert)).TargetBlank(true),
	}
}

func last() *common.ReduceDataOptionsBuilder {
	return common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"})
}

func (p panel) build(id uint32, at dashboard.GridPos) cog.Builder[dashboard.Panel] {
	switch p.kind {
	case number:
		return stat.NewPanelBuilder().Id(id).Title(p.title).Description(p.about).Datasource(datasource).GridPos(at).
			Unit(p.unit).Targets(p.targets()).Links(p.links()).Thresholds(p.steps()).ReduceOptions(last()).
			GraphMode(common.BigValueGraphModeArea).ColorMode(common.BigValueColorModeValue)
	case bars:
		return bargauge.NewPanelBuilder().Id(id).Title(p.title).Description(p.about).Datasource(datasource).GridPos(at).
			Unit(p.unit).Targets(p.targets()).Links(p.links()).Thresholds(p.steps()).ReduceOptions(last()).Min(0).
			Orientation(common.VizOrientationHorizontal).DisplayMode(common.BarGaugeDisplayModeGradient)
	case rows:
		return table.NewPanelBuilder().Id(id).Title(p.title).Description(p.about).Datasource(datasource).GridPos(at).
			Unit(p.unit).Targets(p.targets()).Links(p.links()).Thresholds(p.steps()).ShowHeader(true).
			Footer(common.NewTableFooterOptionsBuilder().Show(false).Reducer([]string{"sum"}))
	}
	made := timeseries.NewPanelBuilder().Id(id).Title(p.title).Description(p.about).Datasource(datasource).GridPos(at).
		Unit(p.unit).Targets(p.targets()).Links(p.links()).Thresholds(p.steps()).Min(0).
		LineWidth(1).FillOpacity(8).ShowPoints(common.VisibilityModeNever).
		Legend(common.NewVizLegendOptionsBuilder().ShowLegend(true).DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom)).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending))
	if p.stacked {
		made.FillOpacity(35).Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal))
	}
	return made
}
