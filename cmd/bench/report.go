package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

// report is the result of a bench. Its figures are in display order.
type report struct {
	name    string
	figures []figure
}

type figure struct {
	Name   string    `json:"name"`
	Values []float64 `json:"values"`
	Unit   string    `json:"unit"`
}

func (r *report) add(name, unit string, values ...float64) {
	r.figures = append(r.figures, figure{name, values, unit})
}

// times adds the percentiles of a list of durations.
func (r *report) times(name string, list []time.Duration) {
	list = slices.Sorted(slices.Values(list))
	r.add(name+" (p50, p95, p99)", "ms", millis(percentile(list, 50)), millis(percentile(list, 95)), millis(percentile(list, 99)))
}

// percentile returns the smallest element of a sorted list that at least p percent of the elements do not exceed.
func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}

func millis(d time.Duration) float64 { return d.Seconds() * 1e3 }
func micros(d time.Duration) float64 { return d.Seconds() * 1e6 }

// write prints the report as a table, or as a line of JSON.
func (r report) write(w io.Writer, asJSON bool) error {
	if asJSON {
		return r.writeJSON(w)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", r.name)
	for _, f := range r.figures {
		fmt.Fprintf(&b, "  %-66s", f.Name)
		for _, v := range f.Values {
			fmt.Fprintf(&b, " %8s", number(v))
		}
		fmt.Fprintf(&b, " %s\n", f.Unit)
	}
	b.WriteString("\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func (r report) writeJSON(w io.Writer) error {
	return json.NewEncoder(w).Encode(map[string]any{"bench": r.name, "figures": r.figures})
}

// number formats v with three digits, or with all digits before the decimal point.
func number(v float64) string {
	switch a := math.Abs(v); {
	case a >= 100 || v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

// fromLeast returns the differences to the smallest duration.
func fromLeast(list []time.Duration) []time.Duration {
	least := slices.Min(list)
	for i := range list {
		list[i] -= least
	}
	return list
}
