package cmd

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"syscall"
	"testing"

	"github.com/batonrun/baton/config"
)

// Writes do not wait for a reader. Once it reads, it learns how many lines it has missed.
func TestPrinter_DropsAndCounts(t *testing.T) {
	r, w := io.Pipe()
	p := newPrinter(w)
	log := newLogger(config.Log{Format: "json"}, p)
	const lines = 3 * maxPending / 100
	for i := range lines {
		log.Info(fmt.Sprintf("%099d", i))
	}
	var read, dropped int
	for scan := bufio.NewScanner(r); read+dropped < lines && scan.Scan(); {
		var line struct {
			Msg   string
			Lines int
		}
		if err := json.Unmarshal(scan.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		if dropped += line.Lines; line.Lines == 0 {
			read++
		}
	}
	if read == 0 || dropped == 0 || read+dropped != lines {
		t.Errorf("%d lines were read and %d dropped of %d", read, dropped, lines)
	}
	_ = r.Close()
	p.close()
}

// filled is a file on a disk that is full during the second write.
type filled struct {
	bytes.Buffer
	writes int
}

func (f *filled) Write(text []byte) (int, error) {
	if f.writes++; f.writes == 2 {
		n, _ := f.Buffer.Write(text[:2])
		return n, syscall.ENOSPC
	}
	return f.Buffer.Write(text)
}

// A line that a full disk has cut does not spoil the next one.
func TestPrinter_BeginsNewLineAfterTornOne(t *testing.T) {
	var file filled
	p := printer{to: &file}
	for _, text := range []string{"first\n", "second\n", "third\n"} {
		p.write([]byte(text), 0)
	}
	if got := file.String(); got != "first\nse\nthird\n" {
		t.Errorf("got %q", got)
	}
}
