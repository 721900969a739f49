package runtime_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/attach"
)

// Every method that takes a Caller refuses the zero Caller.
func TestNobodySeesAndDoesNothing(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{Attachments: attach.New(attach.Config{})}, answering("echo", strings.ToUpper))
	s := b.start("main", "echo", "x")
	b.wait(s.RunID, runtime.Completed)
	left, leave := context.WithCancelCause(t.Context())
	leave(runtime.ErrNobody) // a reader without access receives this error
	var nobody runtime.Caller
	rt, asked := reflect.ValueOf(b.Runtime), 0
	parts := []reflect.Value{rt}
	for f, v := range rt.Elem().Fields() {
		if f.IsExported() && v.Kind() == reflect.Pointer {
			parts = append(parts, v)
		}
	}
	for _, of := range parts {
		for m := range of.Type().Methods() {
			var callers []int
			args := []reflect.Value{of}
			for in := range m.Type.Ins() {
				arg := reflect.Zero(in)
				switch {
				case len(args) == 1 && in == of.Type():
					continue
				case in == reflect.TypeFor[context.Context]():
					arg = reflect.ValueOf(t.Context())
				case in == reflect.TypeFor[runtime.Caller]():
					callers = append(callers, len(args))
					arg = reflect.ValueOf(local)
				case in == reflect.TypeFor[string]():
					arg = reflect.ValueOf(s.RunID)
				case in.Kind() == reflect.Pointer:
					arg = reflect.New(in.Elem())
				case in == reflect.TypeFor[runtime.Started]():
					arg = reflect.ValueOf(s)
				}
				args = append(args, arg)
			}
			for _, at := range callers { // each alone is nobody
				asked++
				given := args[at]
				args[at] = reflect.ValueOf(nobody)
				out := m.Func.Call(args)
				args[at] = given
				err, _ := reflect.TypeAssert[error](out[len(out)-1])
				switch it := out[0].Interface().(type) {
				case *runtime.Watch:
					err = it.Next(left)
					it.Close()
				case *runtime.Monitor:
					if agents := it.Agents(); len(agents) > 0 {
						t.Errorf("a monitor shows %v", agents)
					}
					_, err = it.Next(left)
					it.Close()
				case *host.Registry:
					if agents := it.Agents(); len(agents) > 0 {
						t.Errorf("offered are %v", agents)
					}
					continue
				}
				if !errors.Is(err, runtime.ErrNobody) {
					t.Errorf("%s: %v", m.Name, err)
				}
			}
		}
	}
	if asked < 40 {
		t.Errorf("%d methods were called", asked)
	}
}

func TestRolesAreThoseOfTheList(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]runtime.Role{
		"user": runtime.RoleUser, "viewer": runtime.RoleViewer, "operator": runtime.RoleOperator, "admin": runtime.RoleAdmin,
		"": 0, "Admin": 0, "none": 0, "root": 0, "adminn": 0,
	} {
		if got, err := runtime.ParseRole(name); got != want || (err == nil) != (want != 0) {
			t.Errorf("%q: %v, %v", name, got, err)
		}
	}
	for role := range runtime.Role(10) {
		known := role >= runtime.RoleUser && role <= runtime.RoleAdmin
		if _, err := runtime.NewCaller("p", "u", role); (err == nil) != known {
			t.Errorf("%d: %v", role, err)
		}
		if known == (role.String() == "none") {
			t.Errorf("%d is called %v", role, role)
		}
	}
}
