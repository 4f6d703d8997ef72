package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"

	"parley/conversation"
)

// maxExpression bounds an expression, in bytes. The expressions that
// are allowed have no loops, so the length bounds the time as well: well below a
// millisecond.
const maxExpression = 1000

// calculate does arithmetic. The expression is read by the parser of
// expr-lang/expr; it is evaluated here, because that language's own machine lets
// whole numbers overflow in silence and knows more than numbers.
type calculate struct {
	argSchema
	functions map[string]function
}

var _ conversation.Tool = calculate{}

func newCalculate() calculate {
	known := functions()
	return calculate{functions: known, argSchema: newArgSchema(conversation.ToolSpec{
		Name: "calculate",
		Description: "Calculates an arithmetic expression: + - * / % ** (or ^), parentheses, pi, e and the functions " +
			strings.Join(slices.Sorted(maps.Keys(known)), ", ") + " (angles in radians, log is natural).",
		Schema: json.RawMessage(fmt.Sprintf(`{
			"type": "object",
			"properties": {
				"expression": {"type": "string", "minLength": 1, "maxLength": %d, "description": "For example 12 * (3 + 4) or sqrt(2) ** 3"}
			},
			"required": ["expression"],
			"additionalProperties": false
		}`, maxExpression)),
		Idempotent: true,
	})}
}

func (c calculate) expression(args json.RawMessage) (ast.Node, error) {
	var in struct {
		Expression string `json:"expression"`
	}
	if err := c.decode(args, &in); err != nil {
		return nil, err
	}
	if len(in.Expression) > maxExpression {
		return nil, fmt.Errorf("the expression is longer than %d bytes", maxExpression)
	}
	tree, err := parser.Parse(in.Expression)
	if err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n") // a picture of the place follows
		return nil, fmt.Errorf("the expression cannot be read: %s", excerpt(first))
	}
	return tree.Node, nil
}

// Check refuses arguments that are not an expression.
func (c calculate) Check(args json.RawMessage) error {
	_, err := c.expression(args)
	return err
}

// Run calculates.
func (c calculate) Run(ctx context.Context, call conversation.ToolCall) (string, error) {
	node, err := c.expression(call.Args)
	if err != nil {
		return "", err
	}
	n, err := c.evaluate(ctx, node)
	if err != nil {
		return "", err
	}
	return n.String(), nil
}

// number is a whole number, exact in 64 bits, or a decimal one.
type number struct {
	isWhole bool
	i       int64
	f       float64
}

func wholeNumber(i int64) number { return number{isWhole: true, i: i, f: float64(i)} }
func decimal(f float64) number   { return number{f: f} }

// String shows 15 digits: more of a decimal number are not certain.
func (n number) String() string {
	if n.isWhole {
		return strconv.FormatInt(n.i, 10)
	}
	return strconv.FormatFloat(n.f, 'g', 15, 64)
}

var (
	errOverflow  = errors.New("the result is too large")
	errZero      = errors.New("division by zero")
	errUndefined = errors.New("the result is not defined")
)

// finite refuses NaN and infinity, so that no result is infinite unnoticed.
func finite(f float64) (number, error) {
	switch {
	case math.IsNaN(f):
		return number{}, errUndefined
	case math.IsInf(f, 0):
		return number{}, errOverflow
	}
	return decimal(f), nil
}

func (c calculate) evaluate(ctx context.Context, node ast.Node) (number, error) {
	if err := ctx.Err(); err != nil {
		return number{}, err
	}
	switch n := node.(type) {
	case *ast.IntegerNode:
		return wholeNumber(int64(n.Value)), nil
	case *ast.FloatNode:
		return finite(n.Value)
	case *ast.IdentifierNode:
		switch n.Value {
		case "pi", "PI":
			return decimal(math.Pi), nil
		case "e", "E":
			return decimal(math.E), nil
		}
		return number{}, fmt.Errorf("%q is not known; there are numbers, pi and e", excerpt(n.Value))
	case *ast.UnaryNode:
		return c.unary(ctx, n)
	case *ast.BinaryNode:
		left, err := c.evaluate(ctx, n.Left)
		if err != nil {
			return number{}, err
		}
		right, err := c.evaluate(ctx, n.Right)
		if err != nil {
			return number{}, err
		}
		return binary(n.Operator, left, right)
	case *ast.CallNode:
		if callee, ok := n.Callee.(*ast.IdentifierNode); ok {
			return c.apply(ctx, callee.Value, n.Arguments)
		}
	case *ast.BuiltinNode:
		return c.apply(ctx, n.Name, n.Arguments)
	}
	return number{}, errors.New("only arithmetic is calculated")
}

func (c calculate) unary(ctx context.Context, n *ast.UnaryNode) (number, error) {
	value, err := c.evaluate(ctx, n.Node)
	if err != nil {
		return number{}, err
	}
	switch n.Operator {
	case "+":
		return value, nil
	case "-":
		if !value.isWhole {
			return decimal(-value.f), nil
		}
		return binary("-", wholeNumber(0), value)
	}
	return number{}, errors.New("only arithmetic is calculated")
}

func binary(operator string, a, b number) (number, error) {
	both := a.isWhole && b.isWhole
	switch operator {
	case "+":
		if both {
			sum := a.i + b.i
			return exact(sum, (sum > a.i) == (b.i > 0) || b.i == 0)
		}
		return finite(a.f + b.f)
	case "-":
		if both {
			difference := a.i - b.i
			return exact(difference, (difference < a.i) == (b.i > 0) || b.i == 0)
		}
		return finite(a.f - b.f)
	case "*":
		if both {
			return product(a.i, b.i)
		}
		return finite(a.f * b.f)
	case "/":
		if b.f == 0 {
			return number{}, errZero
		}
		if both && a.i%b.i == 0 && (a.i != math.MinInt64 || b.i != -1) {
			return wholeNumber(a.i / b.i), nil
		}
		return finite(a.f / b.f)
	case "%":
		if b.f == 0 {
			return number{}, errZero
		}
		if both {
			return wholeNumber(a.i % b.i), nil
		}
		return finite(math.Mod(a.f, b.f))
	case "**", "^":
		return power(a, b)
	}
	return number{}, fmt.Errorf("%q is not an operator of arithmetic", excerpt(operator))
}

func exact(i int64, holds bool) (number, error) {
	if !holds {
		return number{}, fmt.Errorf("%w for whole numbers (64 bits); write one of them as a decimal, such as 2.0", errOverflow)
	}
	return wholeNumber(i), nil
}

func product(a, b int64) (number, error) {
	if a == 0 || b == 0 {
		return wholeNumber(0), nil
	}
	c := a * b
	return exact(c, c/b == a && (a != -1 || b != math.MinInt64) && (b != -1 || a != math.MinInt64))
}

func power(a, b number) (number, error) {
	if a.f == 0 && b.f < 0 {
		return number{}, errZero
	}
	if !a.isWhole || !b.isWhole || b.i < 0 {
		return finite(math.Pow(a.f, b.f))
	}
	result, base := wholeNumber(1), a
	for n := b.i; n > 0; n >>= 1 {
		var err error
		if n&1 == 1 {
			if result, err = product(result.i, base.i); err != nil {
				return number{}, err
			}
		}
		if n > 1 {
			if base, err = product(base.i, base.i); err != nil {
				return number{}, err
			}
		}
	}
	return result, nil
}

// function is one of mathematics: with so many arguments.
type function struct {
	least, most int
	call        func(args []number) (number, error)
}

func unaryFunc(f func(float64) float64) function {
	return function{1, 1, func(a []number) (number, error) { return finite(f(a[0].f)) }}
}

func binaryFunc(f func(a, b float64) float64) function {
	return function{2, 2, func(a []number) (number, error) { return finite(f(a[0].f, a[1].f)) }}
}

// rounding leaves whole numbers exact and makes decimals whole where they fit.
func rounding(f func(float64) float64) function {
	return function{1, 1, func(a []number) (number, error) { return rounded(a[0], f) }}
}

func rounded(n number, f func(float64) float64) (number, error) {
	if n.isWhole {
		return n, nil
	}
	r := f(n.f)
	if math.Abs(r) < 1<<53 {
		return wholeNumber(int64(r)), nil
	}
	return finite(r)
}

func extreme(better func(a, b number) bool) function {
	return function{1, 100, func(a []number) (number, error) {
		return slices.MinFunc(a, func(x, y number) int {
			switch {
			case better(x, y):
				return -1
			case better(y, x):
				return 1
			}
			return 0
		}), nil
	}}
}

func less(a, b number) bool {
	if a.isWhole && b.isWhole {
		return a.i < b.i
	}
	return a.f < b.f
}

func functions() map[string]function {
	return map[string]function{
		"abs": {1, 1, func(a []number) (number, error) {
			if a[0].isWhole && a[0].i < 0 {
				return binary("-", wholeNumber(0), a[0])
			}
			if a[0].isWhole {
				return a[0], nil
			}
			return finite(math.Abs(a[0].f))
		}},
		"round": {1, 2, func(a []number) (number, error) {
			if len(a) == 1 {
				return rounded(a[0], math.Round)
			}
			if !a[1].isWhole || a[1].i < 0 || a[1].i > 15 {
				return number{}, errors.New("round takes 0 to 15 digits")
			}
			scale := math.Pow(10, a[1].f)
			return finite(math.Round(a[0].f*scale) / scale)
		}},
		"pow":   {2, 2, func(a []number) (number, error) { return power(a[0], a[1]) }},
		"min":   extreme(less),
		"max":   extreme(func(a, b number) bool { return less(b, a) }),
		"floor": rounding(math.Floor),
		"ceil":  rounding(math.Ceil),
		"trunc": rounding(math.Trunc),
		"sqrt":  unaryFunc(math.Sqrt),
		"cbrt":  unaryFunc(math.Cbrt),
		"exp":   unaryFunc(math.Exp),
		"log":   logarithm(math.Log),
		"ln":    logarithm(math.Log),
		"log2":  logarithm(math.Log2),
		"log10": logarithm(math.Log10),
		"sin":   unaryFunc(math.Sin),
		"cos":   unaryFunc(math.Cos),
		"tan":   unaryFunc(math.Tan),
		"asin":  unaryFunc(math.Asin),
		"acos":  unaryFunc(math.Acos),
		"atan":  unaryFunc(math.Atan),
		"atan2": binaryFunc(math.Atan2),
		"hypot": binaryFunc(math.Hypot),
	}
}

func logarithm(f func(float64) float64) function {
	return function{1, 1, func(a []number) (number, error) {
		if a[0].f <= 0 {
			return number{}, errUndefined
		}
		return finite(f(a[0].f))
	}}
}

func (c calculate) apply(ctx context.Context, name string, nodes []ast.Node) (number, error) {
	f, ok := c.functions[name]
	if !ok {
		return number{}, fmt.Errorf("there is no function %q", excerpt(name))
	}
	if len(nodes) < f.least || len(nodes) > f.most {
		return number{}, fmt.Errorf("%s takes another number of arguments than %d", name, len(nodes))
	}
	args := make([]number, len(nodes))
	for i, node := range nodes {
		var err error
		if args[i], err = c.evaluate(ctx, node); err != nil {
			return number{}, err
		}
	}
	return f.call(args)
}
