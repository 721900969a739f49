package rates_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonrun/baton/runtime"
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

func TestProjectBoundsItsUsers(t *testing.T) {
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

func TestRepeatsHaveTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := rates.New(rates.Config{User: rates.Limits{Requests: 1, Burst: 2}})
		ann := caller(t, "p", "ann")
		for want := range 2 {
			for _, take := range []func(runtime.Caller) error{m.Take, m.TakeRepeat} {
				if err := take(ann); err != nil {
					t.Errorf("%d: %v", want, err)
				}
			}
		}
		if m.Take(ann) == nil || m.TakeRepeat(ann) == nil {
			t.Error("more than a burst passed")
		}
	})
}

func TestNoMeterNoLimit(t *testing.T) {
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

// What is held for a user and for a project is bounded, but one request alone may be larger.
func TestBytesUnderWay(t *testing.T) {
	m := rates.New(rates.Config{User: rates.Limits{Bytes: 100}, Project: rates.Limits{Bytes: 150}})
	ann, bob := m.Payer(caller(t, "p", "ann")), m.Payer(caller(t, "p", "bob"))
	for i, c := range []struct {
		who    *rates.Payer
		has, n int64
		want   string // what its refusal says
	}{
		{ann, 0, 50, ""},
		{ann, 50, 450, ""}, // it is alone
		{ann, 0, 1, "You may have 100 bytes"},
		{bob, 0, 1, "Your project may have 150 bytes"},
		{m.Payer(caller(t, "elsewhere", "ann")), 0, 100, ""},
		{ann, 500, -450, ""},
		{ann, 0, 50, ""},
		{ann, 50, 1, "You may have 100 bytes"},
		{bob, 0, 50, ""},
		{bob, 50, 1, "Your project may have"},
		{ann, 50, -50, ""},
		{bob, 50, 50, ""},
		{bob, 100, -100, ""},
		{ann, 50, -50, ""},
	} {
		err := c.who.Pay(c.has, c.n)
		if err == nil && c.want == "" {
			continue
		}
		if code, _, detail := refusal(t, err); code != "too_many_bytes" || !strings.Contains(detail, c.want) {
			t.Errorf("%d: %q, %s, want %q", i, code, detail, c.want)
		}
	}
	if user, project := m.Used(caller(t, "p", "ann")); user.Bytes != 0 || project.Bytes != 0 {
		t.Errorf("%d and %d are still held", user.Bytes, project.Bytes)
	}
	if err := (*rates.Meter)(nil).Payer(caller(t, "p", "ann")).Pay(0, 1<<40); err != nil {
		t.Errorf("without limits: %v", err)
	}
}

// TestManyProjectsHoldAsOneUser has a user's bytes held in two of the projects of a credential, and those of one of its name with another.
func TestManyProjectsHoldAsOneUser(t *testing.T) {
	m := rates.New(rates.Config{User: rates.Limits{Requests: 1, Bytes: 10}})
	in := func(project, home string) runtime.Caller {
		return caller(t, project, "ann").From(runtime.Origin{Home: home})
	}
	one, two, other := in("p", "p"), in("q", "p"), in("q", "q")
	if err := m.Payer(one).Pay(0, 8); err != nil {
		t.Fatal(err)
	}
	if code, _, _ := refusal(t, m.Payer(two).Pay(0, 8)); code != "too_many_bytes" {
		t.Errorf("what is too much with another project's: %q", code)
	}
	if err := m.Payer(other).Pay(0, 8); err != nil {
		t.Errorf("who has another credential: %v", err)
	}
	if user, project := m.Used(two); user.Bytes != 8 || project.Bytes != 8 {
		t.Errorf("the user has %d bytes, the project %d", user.Bytes, project.Bytes)
	}
	if err := m.Payer(one).Pay(8, -8); err != nil {
		t.Fatal(err)
	}
	if err := m.Payer(two).Pay(0, 8); err != nil {
		t.Errorf("when all were given back: %v", err)
	}
}
