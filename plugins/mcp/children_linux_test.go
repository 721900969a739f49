package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/batonrun/baton/plugins"
)

// children returns the processes that this one has started.
func children(t *testing.T) (pids []int) {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	must(t, err)
	for _, task := range tasks {
		list, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%s/children", task.Name()))
		if err != nil {
			continue
		}
		for f := range strings.FieldsSeq(string(list)) {
			pid, err := strconv.Atoi(f)
			must(t, err)
			pids = append(pids, pid)
		}
	}
	return pids
}

// Close kills the program, even while a call hangs.
func TestClose_EndsProgram(t *testing.T) {
	cfg := program(t)
	s := started(t, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	told := make(chan struct{})
	tool := find(t, s, "it.hang")
	go func() {
		_, err := tool.Call(ctx, &plugins.Call{ID: "c", Progress: func(float64, string) { close(told) }})
		ended <- err
	}()
	<-told
	pids := children(t)
	if len(pids) != 1 {
		t.Fatalf("children: %v", pids)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := s.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if err := syscall.Kill(pids[0], 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the program is still there: %v", err)
	}
}
