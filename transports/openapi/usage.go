package openapi

import "github.com/batonrun/baton/transports/wire"

// usage describes the routes of usage and budgets.
func (d *describer) usage() {
	used := reply("The usage.", ref("Usage"), "usage")
	used.Content["text/csv"] = media{Schema: text("A header line, then one line for each item of the JSON.")}
	d.add("GET /api/projects/{projectId}/usage", operation{
		ID: "getUsage", Summary: "Get usage",
		Description: "Returns the tokens and cost of model calls: one sum, or sums grouped by `by`. Days are UTC. Send `Accept: text/csv` for CSV. A " +
			"call counts once it has used tokens, even if it failed or was cancelled. Usage is kept for 400 days, deleted runs included. Users get only " +
			"their own usage.",
		Parameters: []parameter{
			query("by", text("Group by these, separated by commas: `user`, `agent`, `model`, `day`. Default: one sum of everything.")),
			query("since", text("First day, such as 2024-01-15. Default: the first of the month.")),
			query("until", text("Last day. Default: today.")),
		},
		Answers: answers{
			"200": used,
			"400": refuse("Invalid query, or its result has more than 10 000 rows.", "invalid_request", "by must be a list of user, agent, model and day"),
		},
	})
	infer[wire.UsageSum](&d.schemas, "UsageSum")
	infer[wire.Usage](&d.schemas, "Usage")
	d.add("GET /api/projects/{projectId}/budgets", operation{
		ID: "listBudgets", Summary: "List budgets",
		Description: "Returns the budgets and their current use. For a budget of each user or each agent, returns the 100 that have used most in its " +
			"period. Users get the budgets of the project and of its agents, and their own.",
		Answers: answers{"200": reply("The budgets.", object("", must("items", list(ref("Budget"), ""))), "budgets")},
	})
	infer[wire.Budget](&d.schemas, "Budget")
}
