package rates_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/quota"
	"github.com/batonrun/baton/transports/rates"
)

func caller(t *testing.T, project, user string) runtime.Caller {
	t.Helper()
	who, err := runtime.NewCaller(project, user, runtime.RoleUser)
	if err != nil {
		t.Fatal(err)
	}
	return who
}

// refusal is the code of err and when to try again.
func refusal(t *testing.T, err error) (string, time.Duration, string) {
	t.Helper()
	if err == nil {
		return "", 0, ""
	}
	e, ok := errors.AsType[*runtime.Error](err)
	if !ok || e.Kind != runtime.KindOverloaded || e.RetryAfter <= 0 {
		t.Fatalf("%v is no refusal that says when to try again", err)
	}
	return e.Code, e.RetryAfter, e.Detail
}

func TestBurstThenRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := rates.New(rates.Config{User: rates.Limits{Requests: 10, Burst: 30}})
		ann, bob := caller(t, "p", "ann"), caller(t, "p", "bob")
		pass := func(most int) (n int) {
			for range most {
				if m.Take(ann) == nil {
					n++
				}
			}
			return n
		}
		if got := pass(100); got != 30 {
			t.Errorf("%d passed at once, want 30", got)
		}
		code, wait, detail := refusal(t, m.Take(ann))
		if code != "rate_limited" || wait != 100*time.Millisecond || !strings.Contains(detail, "10 requests a second") {
			t.Errorf("refused with %q, %v, %q", code, wait, detail)
		}
		if err := m.Take(bob); err != nil {
			t.Errorf("another user: %v", err)
		}
		<-time.After(wait)
		if got := pass(5); got != 1 {
			t.Errorf("%d passed after the wait, want 1", got)
		}
		<-time.After(time.Second)
		if got := pass(100); got != 10 {
			t.Errorf("%d passed after a second, want 10", got)
		}
		<-time.After(time.Hour)
		if got := pass(100); got != 30 {
			t.Errorf("%d passed after an hour, want 30", got)
		}
		user, project := m.Used(ann)
		if user.Requests != 30 || project.Requests != 0 {
			t.Errorf("used: %+v, %+v", user, project)
		}
	})
}

// Bytes count as requests, also beyond the limit: then the next requests wait for as long as so many would have taken.
func TestMeter_ChargesBytesAsRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := rates.New(rates.Config{User: rates.Limits{Requests: 10, Burst: 30}})
		ann := caller(t, "p", "ann")
		m.Charge(ann, rates.Unit-1)
		if user, _ := m.Used(ann); user.Requests != 0 {
			t.Errorf("a small request counts as %d more", user.Requests)
		}
		m.Charge(ann, 4*rates.Unit+1)
		if user, _ := m.Used(ann); user.Requests != 4 {
			t.Errorf("4 units count as %d requests", user.Requests)
		}
		m.Charge(ann, 26*rates.Unit)
		if err := m.Still(ann); err != nil {
			t.Errorf("a request that has taken the last: %v", err)
		}
		m.Charge(ann, 50*rates.Unit)
		if _, wait, _ := refusal(t, m.Still(ann)); wait != 5*time.Second {
			t.Errorf("a request that 50 others have overtaken waits for %v", wait)
		}
		if _, wait, _ := refusal(t, m.Take(ann)); wait != 5100*time.Millisecond {
			t.Errorf("behind 80 of 30 requests the next one waits for %v", wait)
		}
		if user, _ := m.Used(ann); user.Requests != 30 {
			t.Errorf("%d of 30 requests are used", user.Requests)
		}
		if err := m.Take(caller(t, "p", "bob")); err != nil {
			t.Errorf("another user: %v", err)
		}
	})
}

func TestProjectBoundsItsUsers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := rates.New(rates.Config{User: rates.Limits{Requests: 5}, Project: rates.Limits{Requests: 12}})
		passed := 0
		for i := range 40 {
			if m.Take(caller(t, "p", fmt.Sprint("u", i%4))) == nil {
				passed++
			}
		}
		if passed != 12 {
			t.Errorf("%d passed, want 12", passed)
		}
		_, _, detail := refusal(t, m.Take(caller(t, "p", "fresh")))
		if !strings.Contains(detail, "Your project may send 12") {
			t.Error(detail)
		}
		user, _ := m.Used(caller(t, "p", "fresh"))
		if user.Requests != 0 {
			t.Errorf("a refused request was counted: %+v", user)
		}
		if err := m.Take(caller(t, "q", "u0")); err != nil {
			t.Errorf("the same user elsewhere: %v", err)
		}
	})
}

// TestNobodyIsForgottenBeforeTime has more users than are remembered come between two requests of one who is over its limit.
func TestNobodyIsForgottenBeforeTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := rates.New(rates.Config{User: rates.Limits{Requests: 1, Burst: 60, Streams: 1}})
		ann, watcher := caller(t, "p", "ann"), caller(t, "p", "watcher")
		for range 60 {
			if err := m.Take(ann); err != nil {
				t.Fatal(err)
			}
		}
		release, err := m.Reserve(watcher)
		if err != nil {
			t.Fatal(err)
		}
		most := 0
		for i := range 20_000 {
			_ = m.Take(caller(t, "p", fmt.Sprint("u", i)))
			most = max(most, m.Known())
			<-time.After(time.Millisecond)
		}
		if most > 5000 {
			t.Errorf("%d were remembered, want about as many as come in a second", most)
		}
		passed := 0
		for range 60 {
			if m.Take(ann) == nil {
				passed++
			}
		}
		if passed != 20 { // that many seconds have passed
			t.Errorf("%d more passed, want 20", passed)
		}
		if code, _, _ := refusal(t, second(m.Reserve(watcher))); code != "too_many_streams" {
			t.Errorf("its stream was forgotten: %q", code)
		}
		release()
		if _, err := m.Reserve(watcher); err != nil {
			t.Error(err)
		}
	})
}

func second(_ func(), err error) error { return err }

func TestStreamsAreCounted(t *testing.T) {
	t.Parallel()
	m := rates.New(rates.Config{User: rates.Limits{Streams: 2}, Project: rates.Limits{Streams: 3}})
	ann, bob := caller(t, "p", "ann"), caller(t, "p", "bob")
	one, err := m.Reserve(ann)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Hold(ann)()
	if code, _, detail := refusal(t, second(m.Reserve(ann))); code != "too_many_streams" || !strings.Contains(detail, "You may have 2") {
		t.Error(code, detail)
	}
	defer m.Hold(bob)()
	if _, _, detail := refusal(t, second(m.Reserve(bob))); !strings.Contains(detail, "Your project may have 3") {
		t.Error(detail)
	}
	one()
	one() // a second time it gives nothing back
	if user, project := m.Used(ann); user.Streams != 1 || project.Streams != 2 {
		t.Errorf("%+v, %+v", user, project)
	}
}

func TestSubscriptionsAreCounted(t *testing.T) {
	t.Parallel()
	m := rates.New(rates.Config{User: rates.Limits{Streams: 40}, Project: rates.Limits{Streams: 50}})
	ann, bob := caller(t, "p", "ann"), caller(t, "p", "bob")
	take := func(who runtime.Caller, n int) (one func()) {
		t.Helper()
		for range n {
			var err error
			if one, err = m.Subscribe(who); err != nil {
				t.Fatal(err)
			}
		}
		return one
	}
	one := take(ann, 400)
	if code, _, detail := refusal(t, second(m.Subscribe(ann))); code != "too_many_subscriptions" || !strings.Contains(detail, "All your sockets together may show 400") {
		t.Error(code, detail)
	}
	one()
	one() // a second time it gives nothing back
	_ = take(ann, 1)
	_ = take(bob, 100)
	if _, _, detail := refusal(t, second(m.Subscribe(bob))); !strings.Contains(detail, "your project together may show 500") {
		t.Error(detail)
	}
	if user, project := m.Used(ann); user.Subscriptions != 400 || project.Subscriptions != 500 {
		t.Errorf("%+v, %+v", user, project)
	}
	if few := (rates.Limits{Streams: 3}).Subscriptions(); few != rates.PerSocket {
		t.Errorf("who may have 3 streams may have %d subscriptions", few)
	}
}

func TestNoMeterNoLimit(t *testing.T) {
	t.Parallel()
	var none *rates.Meter
	open := rates.New(rates.Config{})
	for _, m := range []*rates.Meter{none, open} {
		for range 1000 {
			if err := m.Take(caller(t, "p", "ann")); err != nil {
				t.Fatal(err)
			}
			if _, err := m.Reserve(caller(t, "p", "ann")); err != nil {
				t.Fatal(err)
			}
			if _, err := m.Subscribe(caller(t, "p", "ann")); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestOwnerOf_IsOneUserInAllProjectsOfACredential(t *testing.T) {
	t.Parallel()
	in := func(project, home string) quota.Owner {
		return rates.OwnerOf(caller(t, project, "ann").From(runtime.Origin{Home: home}))
	}
	one, two, other := in("p", "p"), in("q", "p"), in("q", "q")
	if one.User != two.User || two.User == other.User || one.Project == two.Project || two.Project != other.Project {
		t.Errorf("%q, %q, %q", one, two, other)
	}
}

// Each of several servers applies an equal part of the limit on requests, also of users that it knows already.
func TestMeter_SharesRequestsWithOtherServers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		servers := 1
		m := rates.New(rates.Config{User: rates.Limits{Requests: 10, Burst: 30}, Servers: func() int { return servers }})
		ann := caller(t, "p", "ann")
		for _, want := range []struct{ servers, passes int }{{1, 30}, {3, 10}, {2, 15}, {100, 1}} {
			servers = want.servers
			_ = m.Take(ann)
			<-time.After(time.Hour)
			n := 0
			for m.Take(ann) == nil {
				n++
			}
			if n != want.passes {
				t.Errorf("of %d servers one lets %d requests pass at once, want %d", servers, n, want.passes)
			}
			if part := m.Config().User; part.Burst != want.passes || part.Requests != max(1, (10+servers-1)/servers) {
				t.Errorf("of %d servers one says that it lets %+v pass", servers, part)
			}
			if _, _, detail := refusal(t, m.Take(ann)); !strings.Contains(detail, fmt.Sprintf("%d at once", want.passes)) || strings.Contains(detail, "each of") != (servers > 1) {
				t.Errorf("one of %d servers refuses with %q", servers, detail)
			}
		}
	})
}
