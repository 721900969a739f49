package cmd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/transports/wire"
)

func (p *Program) agentsCommand() *cobra.Command {
	var server target
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "agents",
		Short: "List the agents",
		Long:  "Agents lists the agents of a server, or without one those that the settings here declare.\n\n" + clientHelp,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, _, err := p.catalog(cmd, server)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), list.Agents)
			}
			rows := [][]string{{"AGENT", "MODEL", "DESCRIPTION"}}
			for i := range list.Agents {
				a := &list.Agents[i]
				model := "-"
				if a.Model != nil {
					model = a.Model.Provider
					if a.Model.Name != nil {
						model += " " + *a.Model.Name
					}
				}
				rows = append(rows, []string{a.Name, model, a.Description})
			}
			return printTable(cmd.OutOrStdout(), rows)
		},
	}
	clientFlags(cmd, &server)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print each agent as a line of JSON")
	return cmd
}

func (p *Program) workflowsCommand() *cobra.Command {
	var server target
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "workflows",
		Short: "List the workflows",
		Long:  "Workflows lists the workflows of a server with their nodes, or without one those that the settings here declare.\n\n" + clientHelp,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, list, err := p.catalog(cmd, server)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), list.Workflows)
			}
			rows := [][]string{{"WORKFLOW", "NODES", "DESCRIPTION"}}
			for _, w := range list.Workflows {
				nodes := make([]string, len(w.Nodes))
				for i, n := range w.Nodes {
					nodes[i] = n.ID
				}
				rows = append(rows, []string{w.Name, strings.Join(nodes, ", "), w.Description})
			}
			return printTable(cmd.OutOrStdout(), rows)
		},
	}
	clientFlags(cmd, &server)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print each workflow as a line of JSON")
	return cmd
}

// catalog returns the agents and workflows of the selected server, or without one those that this program would serve.
func (p *Program) catalog(cmd *cobra.Command, t target) (agents wire.Catalog, workflows wire.CatalogWorkflows, err error) {
	c, cfg, err := connect(cmd, t)
	if err != nil {
		return agents, workflows, err
	}
	if c != nil {
		if err = c.do(cmd.Context(), http.MethodGet, "/api/v1/agents", nil, &agents); err == nil {
			err = c.do(cmd.Context(), http.MethodGet, "/api/v1/workflows", nil, &workflows)
		}
		return agents, workflows, err
	}
	o, err := p.offers(cfg, offers{})
	if err != nil {
		return agents, workflows, err
	}
	reg := new(host.Registry)
	if err := reg.Add(o.withOrigins()...); err != nil {
		return agents, workflows, &usageError{err}
	}
	return wire.NewCatalog(reg, true), wire.NewCatalogWorkflows(reg, true), nil
}

// completeNames completes the name of an agent or workflow.
func (p *Program) completeNames(t *target) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer hurry(cmd)()
		agents, workflows, _ := p.catalog(cmd, *t) // an unreachable server completes nothing
		for i := range agents.Agents {
			names = append(names, cobra.CompletionWithDesc(agents.Agents[i].Name, agents.Agents[i].Description))
		}
		for _, w := range workflows.Workflows {
			names = append(names, cobra.CompletionWithDesc(w.Name, cmp.Or(w.Description, "workflow")))
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeRuns completes the ids of open runs, or of all runs.
func completeRuns(t *target, q runsQuery) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) (ids []string, _ cobra.ShellCompDirective) {
		defer hurry(cmd)()
		c, err := newClient(cmd, *t)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		q.limit = 50
		runs, _ := c.page(cmd.Context(), &q)
		for i := range runs {
			ids = append(ids, cobra.CompletionWithDesc(runs[i].ID, string(runs[i].Status)+" "+runs[i].WorkflowID))
		}
		return ids, cobra.ShellCompDirectiveNoFileComp
	}
}

// hurry limits how long a completion may ask a server.
func hurry(cmd *cobra.Command) context.CancelFunc {
	ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
	cmd.SetContext(ctx)
	return cancel
}

// printTable prints rows of cells, with the text of each on one line.
func printTable(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, cells := range rows {
		for i, cell := range cells {
			cells[i] = strings.NewReplacer("\t", " ", "\n", " ").Replace(printable(cell))
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	return t.Flush()
}
