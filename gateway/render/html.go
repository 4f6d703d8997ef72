package render

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"

	"github.com/microcosm-cc/bluemonday"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/util"
)

// HTML is the HTML of a Markdown text: safe to put into a page as it is. HTML that
// stands in the text is shown as text, an image as its description: to load one would
// tell its server who reads this, and a model can be talked into writing its address.
func HTML(text string) (string, error) {
	out := bounded{most: 2 * mostHTML(text)} // the policy may take something out
	if err := markdown.Convert([]byte(text), &out); err != nil {
		return "", fmt.Errorf("render: %w", err)
	}
	return string(policy.SanitizeBytes(out.Bytes())), nil
}

// errLong is the error of a text whose HTML would be much longer than it.
var errLong = errors.New("the HTML is much longer than its text")

// moreHTML is how many times longer than its text, and a little, the HTML may be.
const moreHTML = 4

func mostHTML(text string) int { return moreHTML*len(text) + 4096 }

// bounded keeps what is written, up to a length.
type bounded struct {
	bytes.Buffer
	most int
}

func (b *bounded) Write(text []byte) (int, error) {
	if b.Len()+len(text) > b.most {
		return 0, errLong
	}
	return b.Buffer.Write(text)
}

// Both may be used by any number of goroutines.
var (
	markdown = goldmark.New(
		goldmark.WithExtensions(tables{}, extension.Strikethrough, extension.TaskList,
			extension.NewLinkify(extension.WithLinkifyAllowedProtocols([]string{"http:", "https:"}))),
		goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(asText{}, 1))),
	)
	policy = newPolicy()
)

// asText renders what may not be HTML as text.
type asText struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (asText) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindHTMLBlock, htmlBlock)
	r.Register(ast.KindRawHTML, rawHTML)
	r.Register(ast.KindImage, func(util.BufWriter, []byte, ast.Node, bool) (ast.WalkStatus, error) {
		return ast.WalkContinue, nil // what is within is the description
	})
}

func htmlBlock(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	block, ok := node.(*ast.HTMLBlock)
	if !ok || !entering {
		return ast.WalkContinue, nil
	}
	_, _ = w.WriteString("<p>") // into a buffer, which does not fail
	for i := range block.Lines().Len() {
		line := block.Lines().At(i)
		escape(w, line.Value(source))
	}
	if block.HasClosure() {
		escape(w, block.ClosureLine.Value(source))
	}
	_, _ = w.WriteString("</p>\n")
	return ast.WalkContinue, nil
}

func rawHTML(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	raw, ok := node.(*ast.RawHTML)
	if !ok || !entering {
		return ast.WalkSkipChildren, nil
	}
	for i := range raw.Segments.Len() {
		segment := raw.Segments.At(i)
		escape(w, segment.Value(source))
	}
	return ast.WalkSkipChildren, nil
}

func escape(w util.BufWriter, text []byte) { html.DefaultWriter.RawWrite(w, text) }

// newPolicy lets through what Markdown makes and nothing else: no style, no image, no
// frame, no form but the boxes of a list of tasks, no address but of the web and of mail.
func newPolicy() *bluemonday.Policy {
	p := bluemonday.NewPolicy()
	p.AllowElements("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "ul", "ol", "li",
		"em", "strong", "del", "pre", "code", "table", "thead", "tbody", "tr", "th", "td")
	p.AllowAttrs("class").Matching(regexp.MustCompile(`^language-[A-Za-z0-9_+#.-]{1,32}$`)).OnElements("code")
	p.AllowAttrs("start").Matching(regexp.MustCompile(`^[0-9]{1,9}$`)).OnElements("ol")
	p.AllowAttrs("align").Matching(regexp.MustCompile(`^(left|right|center)$`)).OnElements("th", "td")
	p.AllowAttrs("type").Matching(regexp.MustCompile(`^checkbox$`)).OnElements("input")
	p.AllowAttrs("checked", "disabled").OnElements("input")
	p.AllowAttrs("href").OnElements("a")
	p.AllowAttrs("title").Matching(regexp.MustCompile(`^[^<>"]{0,200}$`)).OnElements("a")
	p.AllowURLSchemes("http", "https", "mailto")
	p.AllowRelativeURLs(false)
	p.RequireParseableURLs(true)
	p.RequireNoFollowOnLinks(true)
	p.RequireNoReferrerOnLinks(true)
	p.AddTargetBlankToFullyQualifiedLinks(true)
	return p
}
