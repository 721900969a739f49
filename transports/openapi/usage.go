package openapi

import "github.com/batonrun/baton/transports/wire"

// usage describes the routes of usage and budgets.
func (d *describer) usage() {
	used := reply("The usage.", ref("Usage"), "usage")
	used.Content["text/csv"] = media{Schema: text("A line of names, then one for each item of the JSON.")}
	d.add("GET /api/projects/{projectId}/usage", operation{
		ID: "getUsage", Summary: "Show what model calls have used",
		Description: "The sum of all calls, or sums by what `by` names, of days in UTC; as CSV with `Accept: text/csv`. A call counts once it has used " +
			"tokens, also if it failed or was cancelled. Usage is kept for 400 days, also of runs that were deleted. Users get their own.",
		Parameters: []parameter{
			query("by", text("What to sum up by: a list of `user`, `agent`, `model` and `day`. Absent: one sum of all.")),
			query("since", text("The first day, like 2024-01-15. Absent: the first of the month.")),
			query("until", text("The last day. Absent: today.")),
		},
		Answers: answers{
			"200": used,
			"400": refuse("The query is none, or has more than 10 000 rows.", "invalid_request", "by must be a list of user, agent, model and day"),
		},
	})
	infer[wire.UsageSum](&d.schemas, "UsageSum", "The usage of the calls that agree in what is summed by.",
		says("agent", "The agent or workflow of the run."), says("tokens", "Of input and output."), says("inputTokens", "With the cached ones."),
		says("outputTokens", "With those of reasoning."), says("cost", "By the prices at the time of each call; null on a server without prices."),
		says("currency", "Null on a server without prices."))
	infer[wire.Usage](&d.schemas, "Usage", "What the model calls of a project have used.", says("since", "The first day."), says("until", "The last day."))
	d.add("GET /api/projects/{projectId}/budgets", operation{
		ID: "listBudgets", Summary: "List the budgets and what is used of them",
		Description: "Of a budget that each user or each agent has there are the hundred that have used most of it in its period. Users get those of " +
			"the project and of its agents, and their own.",
		Answers: answers{"200": reply("The budgets.", object("", must("items", list(ref("Budget"), ""))), "budgets")},
	})
	infer[wire.Budget](&d.schemas, "Budget", "A limit on what model calls may use; calls that are under way may exceed it.",
		may("scope", choice("What has the budget.", "project", "user", "agent", "run")), says("of", "The project, user or agent that has it; null if each run has it."),
		may("per", orNull(choice("Null for a run's budget.", "day", "month"))), says("unit", "`tokens` or a currency."),
		says("limit", "With an operator's raise."), says("used", "Null for a run's budget."), says("resetsAt", "When the next period begins; null for a run's budget."),
		may("over", choice("What happens to runs when it is used up.", "stop", "ask")))
}
