//go:build e2e

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"image"
	"image/color"
	"image/png"
	"maps"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/chromedp/chromedp"
)

// The pictures of the dashboards for the documents. Grafana cannot be had on the machines of the
// project, so they are drawn here, from the committed JSON and the data of the real Prometheus:
// panels, titles, units, lines, numbers, bars and tables, not Grafana's own look.

const (
	pictureWidth = 1440 // of the page
	columnWidth  = pictureWidth / 24
	rowHeight    = 25
)

// colors are those of lines, in their order.
var colors = []string{"#5794f2", "#73bf69", "#ff9830", "#f2495c", "#b877d9", "#33b5c9", "#fade2a", "#c4a484", "#8ab8ff", "#96d98d"}

// pictures draws every dashboard over the time since began into dir.
func (p *prometheusServer) pictures(dir string, began time.Time) {
	p.t.Helper()
	b := &bench{t: p.t}
	b.browse()
	for _, board := range drawnBoards(p.t) {
		page, height := p.page(board, began)
		file := filepath.Join(p.t.TempDir(), board.file+".html")
		if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
			p.t.Fatal(err)
		}
		b.size(pictureWidth, int64(height))
		if _, err := chromedp.Run(b.tab, chromedp.Navigate("file://"+file)); err != nil {
			p.t.Fatal(err)
		}
		picture, err := chromedp.Run(b.tab, chromedp.CaptureScreenshot())
		if err != nil {
			p.t.Fatal(err)
		}
		picture, err = fewColors(picture)
		if err != nil {
			p.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, board.file+".png"), picture, 0o644); err != nil {
			p.t.Fatal(err)
		}
		p.t.Logf("%s.png: %d KB, %d px high", board.file, len(picture)>>10, height)
	}
}

// fewColors makes a picture small: it keeps the most frequent 128 colors, and gives every other
// pixel the nearest of them. What is lost is the smoothness of letters and lines, which nobody sees.
func fewColors(text []byte) ([]byte, error) {
	full, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	b := full.Bounds()
	often := map[color.RGBA]int{}
	at := func(x, y int) color.RGBA {
		r, g, b, _ := full.At(x, y).RGBA()
		return color.RGBA{uint8(r>>8) &^ 7, uint8(g>>8) &^ 7, uint8(b>>8) &^ 7, 255}
	}
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			often[at(x, y)]++
		}
	}
	kept := slices.SortedFunc(maps.Keys(often), func(a, b color.RGBA) int {
		return cmp.Or(often[b]-often[a], int(a.R)-int(b.R), int(a.G)-int(b.G), int(a.B)-int(b.B))
	})
	kept = kept[:min(len(kept), 128)]
	var palette color.Palette
	for _, c := range kept {
		palette = append(palette, c)
	}
	small, nearest := image.NewPaletted(b, palette), map[color.RGBA]uint8{}
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			c := at(x, y)
			i, known := nearest[c]
			if !known {
				i = uint8(palette.Index(c))
				nearest[c] = i
			}
			small.SetColorIndex(x, y, i)
		}
	}
	var out bytes.Buffer
	err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, small)
	return out.Bytes(), err
}

// page is a dashboard as HTML, and how high it is.
func (p *prometheusServer) page(board drawnBoard, began time.Time) (page string, height int) {
	var out strings.Builder
	out.WriteString(`<!doctype html><meta charset="utf-8"><style>
body{margin:0;background:#111217;color:#ccccdc;font:12px/1.3 "DejaVu Sans",sans-serif;position:relative}
h1{font-size:16px;font-weight:600;margin:0;padding:10px 12px;height:20px}
.p,.r{position:absolute;box-sizing:border-box}
.p{background:#181b1f;border:1px solid #2c3039;border-radius:3px;overflow:hidden}
.p b{display:block;font-size:11px;font-weight:600;padding:4px 8px 0;white-space:nowrap;overflow:hidden;text-overflow:ellipsis}
.r{font-size:13px;font-weight:600;padding:4px 8px}
.n{font-size:26px;text-align:center;padding-top:12px}
.l{position:absolute;bottom:3px;left:8px;right:8px;font-size:9px;white-space:nowrap;overflow:hidden;color:#9fa7b3}
.l i{display:inline-block;width:10px;height:3px;margin:0 3px 2px 0}
.l span{margin-right:10px}
table{width:100%;border-collapse:collapse;font-size:10px}td,th{text-align:left;padding:2px 8px;border-bottom:1px solid #2c3039}
.none{color:#6e7683;padding:14px 8px;text-align:center}
.bar{margin:6px 8px;font-size:10px}.bar div{height:12px;background:#5794f2;min-width:1px}
text{fill:#9fa7b3;font:9px "DejaVu Sans",sans-serif}</style>`)
	fmt.Fprintf(&out, `<h1>%s</h1>`, html.EscapeString(board.Title))
	const top = 40
	for _, panel := range board.Panels {
		g := panel.GridPos
		place := fmt.Sprintf("left:%dpx;top:%dpx;width:%dpx;height:%dpx", g.X*columnWidth+2, top+g.Y*rowHeight+2, g.W*columnWidth-4, g.H*rowHeight-4)
		height = max(height, top+(g.Y+g.H)*rowHeight)
		if panel.Type == "row" {
			fmt.Fprintf(&out, `<div class="r" style="%s">%s</div>`, place, html.EscapeString(panel.Title))
			continue
		}
		fmt.Fprintf(&out, `<div class="p" style="%s"><b>%s</b>%s</div>`, place, html.EscapeString(panel.Title), p.drawn(panel, began))
	}
	return out.String(), height + 6
}

// drawn is what stands in a panel.
func (p *prometheusServer) drawn(panel drawnPanel, began time.Time) string {
	if panel.Type == "timeseries" {
		return p.lines(panel, began)
	}
	unit := panel.FieldConfig.Defaults.Unit
	var out strings.Builder
	for _, target := range panel.Targets {
		result, err := p.query(filled(target.Expr, "1m"))
		if err != nil {
			p.t.Fatal(err)
		}
		if len(result) == 0 {
			return `<div class="none">nothing</div>`
		}
		switch panel.Type {
		case "stat":
			fmt.Fprintf(&out, `<div class="n" style="color:%s">%s</div>`, panel.color(result[0].Value.V), shownAs(unit, result[0].Value.V))
		case "bargauge":
			most := slices.MaxFunc(result, func(a, b series) int { return int(1e6 * (a.Value.V - b.Value.V)) }).Value.V
			for _, one := range result {
				fmt.Fprintf(&out, `<div class="bar">%s: %s<div style="width:%.0f%%"></div></div>`, html.EscapeString(legend(target.LegendFormat, one.Metric)), shownAs(unit, one.Value.V), 100*one.Value.V/max(most, 1e-9))
			}
		case "table":
			var names []string
			for name := range result[0].Metric {
				names = append(names, name)
			}
			slices.Sort(names)
			out.WriteString("<table><tr>")
			for _, name := range names {
				fmt.Fprintf(&out, "<th>%s</th>", html.EscapeString(name))
			}
			for _, one := range result {
				out.WriteString("<tr>")
				for _, name := range names {
					fmt.Fprintf(&out, "<td>%s</td>", html.EscapeString(one.Metric[name]))
				}
			}
			out.WriteString("</table>")
		}
	}
	return out.String()
}

// color is that of the threshold that a number has reached.
func (p drawnPanel) color(v float64) string {
	name := "green"
	for _, step := range p.FieldConfig.Defaults.Thresholds.Steps {
		if step.Value == nil || v >= *step.Value {
			name = step.Color
		}
	}
	return map[string]string{"green": "#73bf69", "orange": "#ff9830", "red": "#f2495c"}[name]
}

// lines are a time series as SVG, with its legend.
func (p *prometheusServer) lines(panel drawnPanel, began time.Time) string {
	end := time.Now()
	var all []series
	var names []string
	for _, target := range panel.Targets {
		var data struct{ Result []series }
		err := p.get("/api/v1/query_range", url.Values{
			"query": {filled(target.Expr, "15s")}, "step": {"1"},
			"start": {fmt.Sprint(began.Unix())}, "end": {fmt.Sprint(end.Unix())},
		}, &data)
		if err != nil {
			p.t.Fatal(err)
		}
		for _, one := range data.Result {
			all, names = append(all, one), append(names, legend(target.LegendFormat, one.Metric))
		}
	}
	if len(all) > 8 { // series that are always 0 say little
		var some []series
		var kept []string
		for i, one := range all {
			if slices.ContainsFunc(one.Values, func(s sample) bool { return s.V > 0 }) {
				some, kept = append(some, one), append(kept, names[i])
			}
		}
		if len(some) > 0 {
			all, names = some, kept
		}
	}
	if len(all) == 0 {
		return `<div class="none">nothing</div>`
	}
	stacked := panel.FieldConfig.Defaults.Custom.Stacking.Mode == "normal"
	sums := map[float64]float64{}
	most := 0.0
	for _, one := range all {
		for i, s := range one.Values {
			if math.IsNaN(s.V) {
				continue
			}
			if stacked {
				sums[s.At] += s.V
				one.Values[i].V = sums[s.At]
			}
			most = max(most, one.Values[i].V)
		}
	}
	if most == 0 {
		most = 1
	}
	w, h := panel.GridPos.W*columnWidth-6, panel.GridPos.H*rowHeight-46
	const left = 52
	x := func(at float64) float64 {
		return left + (at-float64(began.Unix()))/max(1, end.Sub(began).Seconds())*float64(w-left-8)
	}
	y := func(v float64) float64 { return 6 + (1-v/(most*1.08))*float64(h-18) }
	unit := panel.FieldConfig.Defaults.Unit
	var out strings.Builder
	fmt.Fprintf(&out, `<svg width="%d" height="%d">`, w, h)
	for i := range 4 {
		v := most * float64(i) / 3
		fmt.Fprintf(&out, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#2c3039"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`, left, w-8, y(v), y(v), left-5, y(v)+3, shownAs(unit, v))
	}
	for i := range 4 {
		at := began.Add(end.Sub(began) * time.Duration(i) / 3)
		fmt.Fprintf(&out, `<text x="%.0f" y="%d" text-anchor="%s">%s</text>`, x(float64(at.Unix())), h-1, []string{"start", "middle", "middle", "end"}[i], at.UTC().Format("15:04:05"))
	}
	for i := len(all) - 1; i >= 0; i-- {
		var points []string
		for _, s := range all[i].Values {
			if !math.IsNaN(s.V) {
				points = append(points, fmt.Sprintf("%.1f,%.1f", x(s.At), y(s.V)))
			}
		}
		ink := colors[i%len(colors)]
		if stacked && len(points) > 0 {
			first, _, _ := strings.Cut(points[0], ",")
			last, _, _ := strings.Cut(points[len(points)-1], ",")
			fmt.Fprintf(&out, `<polygon points="%s,%.1f %s %s,%.1f" fill="%s" opacity="0.35"/>`, first, y(0), strings.Join(points, " "), last, y(0), ink)
		}
		fmt.Fprintf(&out, `<polyline points="%s" fill="none" stroke="%s"/>`, strings.Join(points, " "), ink)
	}
	out.WriteString(`</svg><div class="l">`)
	for i, name := range names {
		fmt.Fprintf(&out, `<span><i style="background:%s"></i>%s</span>`, colors[i%len(colors)], html.EscapeString(name))
	}
	out.WriteString(`</div>`)
	return out.String()
}

// legend fills in the labels of a series.
func legend(format string, labels map[string]string) string {
	for name, value := range labels {
		format = strings.ReplaceAll(format, "{{"+name+"}}", value)
	}
	for strings.Contains(format, "{{") { // a label that the series does not have
		before, rest, _ := strings.Cut(format, "{{")
		_, after, _ := strings.Cut(rest, "}}")
		format = before + after
	}
	return strings.TrimSpace(format)
}

// shownAs is a number with its unit, as short as Grafana shows it.
func shownAs(unit string, v float64) string {
	scaled := func(step float64, names ...string) string {
		i := 0
		for i < len(names)-1 && math.Abs(v) >= step {
			v, i = v/step, i+1
		}
		return fmt.Sprintf("%.3g %s", v, names[i])
	}
	switch unit {
	case "s":
		switch {
		case v == 0:
			return "0 s"
		case math.Abs(v) < 1e-3:
			return fmt.Sprintf("%.3g µs", v*1e6)
		case math.Abs(v) < 1:
			return fmt.Sprintf("%.3g ms", v*1e3)
		}
		return scaled(60, "s", "min", "h")
	case "bytes":
		return scaled(1024, "B", "KiB", "MiB", "GiB", "TiB")
	case "Bps":
		return scaled(1000, "B/s", "kB/s", "MB/s")
	case "ops", "reqps":
		return scaled(1000, "/s", "k/s", "M/s")
	case "percentunit":
		return fmt.Sprintf("%.3g %%", v*100)
	case "dateTimeFromNow":
		return time.Since(time.UnixMilli(int64(v))).Round(time.Second).String() + " ago"
	}
	return strings.TrimSpace(scaled(1000, "", "K", "M"))
}
