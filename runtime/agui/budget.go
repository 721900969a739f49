package agui

// BudgetEvent is the name of the CUSTOM event that reports that a budget is nearly or completely used up.
const BudgetEvent = "budget"

// BudgetUse is the use of a budget and its limit, in its unit.
type BudgetUse struct {
	Name  string  `json:"name"`
	Used  float64 `json:"used"`
	Limit float64 `json:"limit"`
}

// Event is the event for b.
func (b BudgetUse) Event() Custom { return custom(BudgetEvent, b) }
