package cmd_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batonrun/baton/cmd"
	"github.com/batonrun/baton/plugins/builtin"
)

// terminal is a pseudoterminal: writes to it are typed input, screen has its output.
type terminal struct {
	*os.File
	tty    *os.File // the program's side
	screen output
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	must(t, err)
	must(t, unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	must(t, err)
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	term := &terminal{File: person, tty: tty}
	go func() { _, _ = io.Copy(&term.screen, person) }() // ends when the program's side is closed
	t.Cleanup(func() {
		_ = tty.Close()
		_ = person.Close()
	})
	return term
}

// resize sets the width of the terminal.
func (term *terminal) resize(t *testing.T, columns uint16) {
	t.Helper()
	must(t, unix.IoctlSetWinsize(int(term.tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}))
}

func (term *terminal) say(t *testing.T, text, until string) {
	t.Helper()
	if _, err := io.WriteString(term, text); err != nil {
		t.Fatal(err)
	}
	term.screen.until(t, until)
}

func TestChat_AtTerminal(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	db := database(t)
	sit := func(args ...string) (*terminal, <-chan int) {
		term := newTerminal(t)
		p := cmd.Program{
			Plugins: builtin.Plugins(), Args: append([]string{"chat", "--database", db}, args...),
			Stdin: term.tty, Stdout: term.tty, Stderr: term.tty,
		}
		code := make(chan int, 1)
		go func() { code <- p.Run(context.WithoutCancel(t.Context())) }()
		return term, code
	}

	term, code := sit("scripted")
	term.screen.until(t, "talking to scripted; Ctrl-C cancels a turn, /quit quits\r\nscripted> ")
	term.say(t, "one\ntwo\n\nthree\n", "\r\none\r\ntwo\r\n\r\nthree\r\nscripted> ") // pasted lines are one message
	term.resize(t, 20)
	term.say(t, `{"do":[{"tool":"calculator","args":{"expression":"漢字漢字"}}]}`+"\n", "→ calculator {\"expr…\r\n")
	term.resize(t, 34)
	term.say(t, `{"do":[{"tool":"calculator","args":{"expression":"漢字漢字"}}]}`+"\n", "→ calculator {\"expression\":\"漢字…\r\n")
	term.resize(t, 200)
	term.say(t, "\x04", "\r\nto continue: baton chat --thread ")
	if got := <-code; got != 0 {
		t.Errorf("exit code %d", got)
	}

	_, thread, _ := strings.Cut(term.screen.String(), "--thread ")
	term, code = sit("--thread", aThread.FindString(thread))
	term.screen.until(t, "\r\ntalking to scripted; Ctrl-C cancels a turn, /quit quits\r\nscripted> ")
	term.say(t, "/quit\n", "to continue: ")
	if got := <-code; got != 0 {
		t.Errorf("exit code %d", got)
	}
}
