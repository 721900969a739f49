package budget_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/budget"
	"github.com/batonrun/baton/runtime/data"
	inmemory "github.com/batonrun/baton/runtime/sim/memory"
)

// TestBudgets_ResetAtUTC spends across the ends of days and months, in a process that goes on and in one that begins with the rows.
func TestBudgets_ResetAtUTC(t *testing.T) {
	t.Parallel()
	east := time.FixedZone("east", 5*3600)
	list := []data.Budget{
		{Name: "day", Scope: data.OfUser, Per: data.PerDay, Unit: data.UnitTokens, Limit: 100},
		{Name: "month", Scope: data.OfProject, Per: data.PerMonth, Unit: "USD", Limit: 1},
	}
	prices := data.Prices{Currency: "USD", Models: map[string]data.Price{"m": {Input: 2500}}} // a quarter of a cent a token
	store := inmemory.New(time.Now).Open()
	open := func() *budget.Ledger {
		b, err := budget.New(store, false, "i", list, prices)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	who := data.Spender{Project: "p", User: "u", Agent: "a"}
	goes := open()
	if err := store.Members().Join(t.Context(), "i", ""); err != nil {
		t.Fatal(err)
	}
	commits := int64(0)
	spent := make(map[string]int64) // tokens by day and by month
	for _, at := range []string{
		"2027-01-31T23:59:59.999Z", "2027-02-01T00:00:00Z", "2027-02-01T23:59:59.999Z", "2027-02-02T00:00:00Z", "2027-02-28T23:59:59.999Z",
		"2027-03-01T00:00:00Z", "2027-12-31T23:59:59.999Z", "2028-01-01T00:00:00Z", "2028-02-29T12:00:00Z", "2028-03-01T00:00:00Z",
	} {
		now, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		call := &data.CallUsage{Project: "p", User: "u", Agent: "a", At: now.In(east), Usage: agui.TokenUsage{Model: "m", InputTokens: 60}}
		call.Cost, _ = prices.Cost(call.Usage)
		goes.Count(call, nil)
		commits++
		if err := store.Commit(t.Context(), commits, &data.Batch{Rows: []data.Row{call}}); err != nil {
			t.Fatal(err)
		}
		spent[at[:10]] += 60
		spent[at[:7]] += 60
		begins := open()
		if err := begins.Load(t.Context(), "", now); err != nil {
			t.Fatal(err)
		}
		for name, b := range map[string]*budget.Ledger{"goes on": goes, "begins": begins} {
			got := b.Of(who, nil, now.In(east))
			if len(got) != 2 || got[0].Used != spent[at[:10]] || got[1].Used != spent[at[:7]]*(data.Money/400) {
				t.Errorf("%s, %s: %+v, want %d and %d tokens", at, name, got, spent[at[:10]], spent[at[:7]])
			}
			tomorrow := now.Truncate(24*time.Hour).AddDate(0, 0, 1)
			if !got[0].ResetsAt.Equal(tomorrow) || got[1].ResetsAt.Day() != 1 || got[1].ResetsAt.Before(tomorrow) || got[1].ResetsAt.After(tomorrow.AddDate(0, 0, 31)) {
				t.Errorf("%s, %s: resets at %s and %s", at, name, got[0].ResetsAt, got[1].ResetsAt)
			}
			if refusal := b.Spent(who, now); (refusal != nil) != (spent[at[:10]] >= 100) || refusal != nil && refusal.RetryAfter != max(tomorrow.Sub(now), time.Second) {
				t.Errorf("%s, %s: %+v", at, name, refusal)
			}
		}
	}
}

// TestBudgets_SurviveClockSetBack: a clock that jumps to another month and back loses nothing.
func TestBudgets_SurviveClockSetBack(t *testing.T) {
	t.Parallel()
	b, err := budget.New(inmemory.New(time.Now).Open(), false, "i", []data.Budget{{Name: "b", Scope: data.OfProject, Per: data.PerDay, Unit: data.UnitTokens, Limit: 100}}, data.Prices{})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2027, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, at := range []time.Time{now, now.AddDate(1, 0, 0), now, now.AddDate(1, 0, 0), now} {
		b.Count(&data.CallUsage{Project: "p", At: at, Usage: agui.TokenUsage{InputTokens: 10}}, nil)
	}
	if got := b.Of(data.Spender{Project: "p"}, nil, now)[0].Used; got != 30 {
		t.Errorf("%d are used, want 30", got)
	}
}

// TestBudgets_ReportEachMarkOnce: the calls that reach 80 % and all of a budget are reported, and no others.
func TestBudgets_ReportEachMarkOnce(t *testing.T) {
	t.Parallel()
	b, err := budget.New(inmemory.New(time.Now).Open(), false, "i", []data.Budget{{Name: "b", Scope: data.OfAgent, Of: "a", Per: data.PerDay, Unit: data.UnitTokens, Limit: 100}}, data.Prices{})
	if err != nil {
		t.Fatal(err)
	}
	var reached []int64
	for range 6 {
		for _, agent := range []string{"a", "other"} {
			for _, s := range b.Count(&data.CallUsage{Project: "p", Agent: agent, At: time.Now(), Usage: agui.TokenUsage{InputTokens: 15, OutputTokens: 5}}, nil) {
				reached = append(reached, s.Used)
			}
		}
	}
	if !slices.Equal(reached, []int64{80, 100}) {
		t.Errorf("reported at %v", reached)
	}
}

func TestBudgets_AreChecked(t *testing.T) {
	t.Parallel()
	good := data.Budget{Name: "b", Scope: data.OfUser, Per: data.PerDay, Unit: data.UnitTokens, Limit: 1}
	if _, err := budget.New(inmemory.New(time.Now).Open(), false, "i", []data.Budget{good}, data.Prices{}); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(b *data.Budget){
		"no name": func(b *data.Budget) { b.Name = "" }, "scope": func(b *data.Budget) { b.Scope = "all" }, "per": func(b *data.Budget) { b.Per = "week" },
		"a run's period": func(b *data.Budget) { b.Scope = data.OfRun }, "unit": func(b *data.Budget) { b.Unit = "USD" }, "no unit": func(b *data.Budget) { b.Unit = "" },
		"limit": func(b *data.Budget) { b.Limit = 0 }, "too much": func(b *data.Budget) { b.Limit = 1e30 }, "over": func(b *data.Budget) { b.Over = "wait" },
	} {
		bad := good
		if change(&bad); data.CheckBudgets([]data.Budget{bad}, &data.Prices{}) == nil {
			t.Errorf("%s is not refused", name)
		}
	}
	if data.CheckBudgets([]data.Budget{good, good}, &data.Prices{}) == nil {
		t.Error("equal names are not refused")
	}
}

// busy is a store of a cluster in which another server has reserved the rest of a budget.
type busy struct {
	reserved data.Reserved
	asked    int
}

func (*busy) Raises(context.Context, time.Time) ([]data.Raise, error) { return nil, nil }

func (*busy) Spent(context.Context, string, time.Time, time.Time) ([]data.Spending, error) {
	return nil, nil
}

func (b *busy) ReserveBudgets(_ context.Context, _, _ string, reserve func([]data.Reserved) ([]data.Reserved, error)) error {
	b.asked++
	_, err := reserve([]data.Reserved{b.reserved})
	return err
}

// A call that waits for another server asks the database four times a second.
func TestLedger_WaitsForOtherServers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		day := data.Budget{Name: "b", Scope: data.OfProject, Per: data.PerDay, Unit: data.UnitTokens, Limit: 100}
		from, _ := day.Period(time.Now())
		store := &busy{reserved: data.Reserved{Budget: "b", Subject: "p", From: from, Amount: 100}}
		b, err := budget.New(store, true, "i", []data.Budget{day}, data.Prices{})
		if err != nil {
			t.Fatal(err)
		}
		h := &budget.Hold{Project: "p"}
		b.Add(h, &b.Of(data.Spender{Project: "p"}, nil, time.Now())[0], agui.TokenUsage{}, time.Now(), false, nil)
		for began := time.Now(); time.Since(began) < time.Minute; {
			held, changed, err := b.Reserve(t.Context(), h)
			if err == nil {
				err = b.Await(t.Context(), changed)
			}
			if held || err != nil || store.asked > 240 {
				t.Fatalf("%v: reserved %v, asked %d times, %v", time.Since(began), held, store.asked, err)
			}
		}
	})
}
