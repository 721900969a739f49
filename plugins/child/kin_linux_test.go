package child_test

import (
	"bufio"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins/child"
)

// Descendants outside of the program's group and session are killed, however the program ends.
func TestChild_LeavesNothingBehind(t *testing.T) {
	const leave = `setsid sleep 1000 & echo $!
setsid sh -c 'sleep 1000 </dev/null >/dev/null 2>&1 & echo $!'
sh -c 'setsid sh -c "cd /; trap \"\" TERM HUP; (while :; do sleep 1000; done) & echo \$!" &'
`
	for name, end := range map[string]string{
		"it returns":         "while ! test -e done; do sleep 0.01; done; exit 0",
		"it fails":           "while ! test -e done; do sleep 0.01; done; exit 3",
		"it crashes":         "while ! test -e done; do sleep 0.01; done; kill -KILL $$",
		"it is stopped":      "cat",
		"it ignores its end": "trap '' TERM; while :; do sleep 1000; done",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c := start(t, child.Config{Command: sh(leave + end), Dir: dir, Grace: 50 * time.Millisecond})
			other := start(t, child.Config{Command: []string{"cat"}})
			out := bufio.NewReader(c.Output)
			var left []int
			for range 3 {
				line, err := out.ReadString('\n')
				if err != nil {
					t.Fatal(err)
				}
				pid, err := strconv.Atoi(strings.TrimSpace(line))
				if err != nil {
					t.Fatal(err)
				}
				left = append(left, pid)
			}
			if strings.Contains(end, "test -e done") {
				put(t, dir+"/done")
				<-c.Done()
			}
			_ = c.Close(t.Context())
			for _, pid := range left {
				gone(t, pid)
			}
			select {
			case <-other.Done():
				t.Error("another program has ended")
			default:
			}
		})
	}
}
