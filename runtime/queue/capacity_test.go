package queue

import (
	"testing"
	"testing/fstest"
)

func TestCarried_IsWhatMemoryCarries(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		files map[string]string
		want  int
	}{
		{"memory is plenty", map[string]string{"proc/meminfo": "MemTotal:       24684092 kB\nMemFree: 1 kB\n"}, 10_000},
		{"memory is scarce", map[string]string{"proc/meminfo": "MemTotal:       1048576 kB\n"}, 1024},
		{"a container", map[string]string{
			"proc/meminfo": "MemTotal: 24684092 kB\n", "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "536870912\n",
		}, 512},
		{"a container without a limit", map[string]string{"sys/fs/cgroup/memory.max": "max\n"}, 10_000},
		{"a unit of systemd", map[string]string{
			"proc/self/cgroup": "1:name=systemd:/\n0::/system.slice/baton.service\n",
			"sys/fs/cgroup/system.slice/baton.service/memory.max": "268435456\n",
		}, 256},
		{"a slice of systemd", map[string]string{
			"proc/self/cgroup":                                                      "0::/agents.slice/agents-ours.slice/baton.service\n",
			"sys/fs/cgroup/agents.slice/memory.max":                                 "314572800\n",
			"sys/fs/cgroup/agents.slice/memory.high":                                "max\n",
			"sys/fs/cgroup/agents.slice/agents-ours.slice/memory.max":               "max\n",
			"sys/fs/cgroup/agents.slice/agents-ours.slice/baton.service/memory.max": "536870912\n",
			"sys/fs/cgroup/other.slice/memory.max":                                  "104857600\n",
		}, 300},
		{"a slice that is slowed down", map[string]string{
			"proc/self/cgroup":                       "0::/agents.slice/baton.service\n",
			"sys/fs/cgroup/agents.slice/memory.high": "209715200\n",
			"sys/fs/cgroup/agents.slice/memory.max":  "314572800\n",
		}, 200},
		{"control groups of the first version", map[string]string{
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "104857600\n",
		}, 100},
		{"a unit of the first version", map[string]string{
			"proc/self/cgroup":                                                      "12:cpu,cpuacct:/other\n4:hugetlb,memory:/system.slice/baton.service\n1:name=systemd:/other\n0::/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":                            "9223372036854771712\n",
			"sys/fs/cgroup/memory/system.slice/memory.limit_in_bytes":               "314572800\n",
			"sys/fs/cgroup/memory/system.slice/baton.service/memory.limit_in_bytes": "419430400\n",
			"sys/fs/cgroup/memory/other/memory.limit_in_bytes":                      "104857600\n",
		}, 300},
		{"the second version beside the first", map[string]string{
			"proc/self/cgroup": "4:cpu:/other\n0::/system.slice/baton.service\n",
			"sys/fs/cgroup/unified/system.slice/memory.max": "314572800\n",
		}, 300},
		{"a container that sees its host's names", map[string]string{
			"proc/self/cgroup":                           "4:memory:/docker/0123\n0::/../../x\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "314572800\n",
		}, 300},
		{"next to nothing", map[string]string{"proc/meminfo": "MemTotal: 16384 kB\n"}, 64},
		{"nobody says", nil, 10_000},
	} {
		root := make(fstest.MapFS)
		for name, text := range test.files {
			root[name] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := runsFor(memory(root)); got != test.want {
			t.Errorf("%s: got %d runs, want %d", test.name, got, test.want)
		}
	}
}
