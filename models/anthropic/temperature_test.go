package anthropic

import "testing"

// Anthropic's own service refuses any temperature in the version of the API that is asked
// for; other servers, and an older version, may take one.
func TestTemperatureIsRefusedWhereItCannotWork(t *testing.T) {
	for name, c := range map[string]struct {
		o    Options
		want int
	}{
		"Anthropic":           {Options{Connection: Connection{Model: "m", Temperature: new(1.0)}}, 1},
		"without one":         {Options{Connection: Connection{Model: "m"}}, 0},
		"another server":      {Options{Connection: Connection{Model: "m", Temperature: new(1.0), BaseURL: "http://h"}}, 0},
		"a version before it": {Options{Connection: Connection{Model: "m", Temperature: new(1.0), Headers: map[string]string{"Anthropic-Version": "2023-06-01"}}}, 0},
	} {
		wrong := c.o.Validate()
		if len(wrong) != c.want || c.want == 1 && wrong[0].Key != "temperature" {
			t.Errorf("%s: %v", name, wrong)
		}
	}
}
