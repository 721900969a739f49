package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/batonrun/baton/config/document"
)

// maxDays is about a hundred years.
const maxDays = 36_500

// retentionOfProjects is the setting that a file may also write as sections.
const retentionOfProjects = "retention.projects"

// OfProjects returns the retention of each project in Projects. Days that it does not set are those of r.
func (r Retention) OfProjects() (map[string]Retention, error) {
	all := map[string]Retention{}
	var seen []string
	for _, text := range r.Projects {
		name, days, ok := strings.Cut(text, "=")
		dot := strings.LastIndex(name, ".")
		if !ok || dot <= 0 {
			return nil, fmt.Errorf("%s: want a project, a kind of data and days, such as p1.runs=30, got %q", retentionOfProjects, text)
		}
		if slices.Contains(seen, name) {
			return nil, fmt.Errorf("%s: %s is set twice", retentionOfProjects, name)
		}
		seen = append(seen, name)
		n, err := strconv.Atoi(strings.TrimSpace(days))
		if err != nil || n < 0 || n > maxDays {
			return nil, fmt.Errorf("%s: %s: want a number of days up to %d, or 0 to keep forever, got %q", retentionOfProjects, name, maxDays, days)
		}
		project, what := name[:dot], name[dot+1:]
		own, ok := all[project]
		if !ok {
			own = r
			own.Projects = nil
		}
		switch what {
		case "runs":
			own.Runs = n
		case "events":
			own.Events = n
		case "attachments":
			own.Attachments = n
		case "audit":
			own.Audit = n
		default:
			return nil, fmt.Errorf("%s: %s is not runs, events, attachments or audit%s", retentionOfProjects, name,
				document.Hint(what, []string{"runs", "events", "attachments", "audit"}))
		}
		all[project] = own
	}
	return all, nil
}

// sections converts one section per project to the form that OfProjects reads.
func sections(n *yaml.Node) (text []string, err error) {
	for i := 0; i < len(n.Content); i += 2 {
		project, val := n.Content[i].Value, n.Content[i+1]
		if val.Kind != yaml.MappingNode || strings.ContainsAny(project, ",=") {
			return nil, errors.New("want one section per project with runs, events, attachments or audit")
		}
		for j := 0; j < len(val.Content); j += 2 {
			days := val.Content[j+1]
			if days.Kind != yaml.ScalarNode {
				return nil, errors.New("want a number of days, got a structure")
			}
			text = append(text, project+"."+val.Content[j].Value+"="+days.Value)
		}
	}
	return text, nil
}
