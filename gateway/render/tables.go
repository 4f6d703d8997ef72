package render

import (
	"bytes"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// tables are those of GFM, but for one of which most cells were not written: the library
// fills up each row to the columns of its table, so that 16 KB of a few thousand columns and
// as many rows of one letter would become millions of cells. Such a one stays a paragraph.
type tables struct{ parser.ParagraphTransformer }

// Extend implements goldmark.Extender.
func (t tables) Extend(m goldmark.Markdown) {
	t.ParagraphTransformer = extension.NewTableParagraphTransformer()
	m.Parser().AddOptions(
		parser.WithParagraphTransformers(util.Prioritized(t, 200)), // as extension.Table has them
		parser.WithASTTransformers(util.Prioritized(extension.NewTableASTTransformer(), 0)),
	)
	m.Renderer().AddOptions(renderer.WithNodeRenderers(util.Prioritized(extension.NewTableHTMLRenderer(), 500)))
}

// Transform implements parser.ParagraphTransformer.
func (t tables) Transform(node *ast.Paragraph, reader text.Reader, pc parser.Context) {
	columns, written, lines := 0, 0, node.Lines()
	for i := range lines.Len() {
		at := lines.At(i)
		line := at.Value(reader.Source())
		written += len(line)
		if bytes.IndexByte(line, '-') >= 0 && len(bytes.Trim(line, "|:- \t\r\n")) == 0 {
			columns = max(columns, bytes.Count(line, []byte("|"))+1)
		}
	}
	if columns*lines.Len() <= 2*written+64 { // a cell that was written has a bar at least
		t.ParagraphTransformer.Transform(node, reader, pc)
	}
}
