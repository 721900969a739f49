package sqlite

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
)

// A SQLite database is two files: the database, and the log of commits that are not in it yet (the WAL). SQLite cannot
// detect that a WAL belongs to another database. If a backup is copied over a database with a leftover WAL, SQLite
// writes pages of that WAL into the copy and destroys it.
//
// Therefore the first page of a database has a mark (the user_version), which each copy and each server replaces. A
// server writes two marks: first the successor of the old mark, then a random one. A WAL belongs to a database if one
// of the WAL's first pages has the database's mark, or if the first of them has its successor. In the latter case the
// WAL has everything since that server started, and the database need not have any of it.

// ErrWAL means that the WAL that lies beside a SQLite database is another one's.
var ErrWAL = errors.New("the WAL is not this database's")

// markStep is how far drawn marks are from each other, so that the number after one is no other.
const markStep = 16

// NewMark returns a random mark.
func NewMark() int32 { return markStep * (1 + rand.Int32N(1<<26)) }

// Statements for marks and the WAL.
const (
	SetMark = "PRAGMA user_version = %d"
	MoveWAL = "PRAGMA wal_checkpoint(TRUNCATE)"
)

// CheckWAL refuses a database beside another database's WAL. This process must not have the database open. While a server has it, the
// two belong together and change too fast to check, unless the caller has the lock.
func CheckWAL(path string, locked bool) error {
	if locked {
		return checkWAL(path)
	}
	for {
		if _, held, err := Holder(path); err != nil || held {
			return err
		}
		err := checkWAL(path)
		if _, held, _ := Holder(path); err == nil || !held { // else a server has come meanwhile
			return err
		}
	}
}

func checkWAL(path string) error {
	wal, err := os.Open(path + "-wal")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer wal.Close()
	firsts, size, err := readWAL(wal)
	if err != nil || size == 0 { // SQLite takes nothing from it
		return err
	}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // SQLite removes the WAL of a database that is new
	}
	if err != nil {
		return err
	}
	defer file.Close()
	var own firstPage
	if _, err := io.ReadFull(file, own[:]); errors.Is(err, io.EOF) {
		return nil // likewise
	} else if err != nil {
		return fmt.Errorf("database %s: %w", path, err)
	}
	if own.usesWAL() && own.owns(firsts, size) {
		return nil
	}
	return fmt.Errorf("%w: %[2]s-wal holds changes of another database than %[2]s, or of a later state of it, and would destroy it."+
		" Was a copy put in its place? Move %[2]s-wal and %[2]s-shm elsewhere to go on with the copy, and put copies in place with restore", ErrWAL, path)
}

// firstPage is the header of a database, which is where its first page begins.
type firstPage [100]byte

func (p *firstPage) usesWAL() bool { return p[18] == 2 && p[19] == 2 }

func (p *firstPage) mark() uint32 { return binary.BigEndian.Uint32(p[60:]) }

// pages returns the size of the database, 0 if the header does not have it.
func (p *firstPage) pages() uint32 {
	if !bytes.Equal(p[24:28], p[92:96]) { // written by a SQLite that did not know of it
		return 0
	}
	return binary.BigEndian.Uint32(p[28:])
}

// owns reports whether a WAL with these first pages belongs to the database. size is the database's size after its
// first transaction. A WAL without a first page has not changed the size.
func (p *firstPage) owns(firsts []firstPage, size uint32) bool {
	if len(firsts) == 0 {
		return p.pages() == 0 || p.pages() == size
	}
	if firsts[0].mark() == p.mark()+1 {
		return true
	}
	for i := range firsts {
		if firsts[i].mark() == p.mark() {
			return true
		}
	}
	return false
}

// readWAL reads the part of a WAL that SQLite would apply. It returns the database's first pages in it, one for each
// mark, and the size after the first transaction, 0 if SQLite would apply nothing.
func readWAL(wal io.Reader) (firsts []firstPage, size uint32, err error) {
	var pending []firstPage // of the transaction being read
	_, err = eachFrame(wal, func(number, committed uint32, page []byte, _ int64) {
		if number == 1 {
			pending = append(pending, firstPage(page))
		}
		if committed > 0 {
			for _, page := range pending {
				if n := len(firsts); n == 0 || firsts[n-1].mark() != page.mark() {
					firsts = append(firsts, page)
				}
			}
			size, pending = cmp.Or(size, committed), pending[:0]
		}
	})
	return firsts, size, err
}

// eachFrame calls do with each frame of a WAL that SQLite could apply: with the number of its page, the size of the database in pages after
// the transaction whose last frame it is, 0 for another one, the page, and where that is in the WAL. It returns the size of a page, 0 if
// there is none. Format: https://www.sqlite.org/fileformat2.html#walformat.
func eachFrame(wal io.Reader, do func(number, committed uint32, page []byte, at int64)) (size int, err error) {
	r := bufio.NewReaderSize(wal, 1<<16)
	var head [32]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, ignoreShort(err)
	}
	sum := walSum{order: binary.LittleEndian}
	switch binary.BigEndian.Uint32(head[:]) {
	case 0x377f0682:
	case 0x377f0683:
		sum.order = binary.BigEndian
	default:
		return 0, nil
	}
	page := binary.BigEndian.Uint32(head[8:])
	if sum.add(head[:24]); !sum.is(head[24:]) || page < 512 || page > 1<<16 || page&(page-1) != 0 {
		return 0, nil
	}
	frame := make([]byte, 24+page)
	for at := int64(len(head)); ; at += int64(len(frame)) {
		if _, err := io.ReadFull(r, frame); err != nil {
			return int(page), ignoreShort(err)
		}
		sum.add(frame[:8])
		sum.add(frame[24:])
		if !bytes.Equal(frame[8:16], head[16:24]) || !sum.is(frame[16:]) {
			return int(page), nil
		}
		do(binary.BigEndian.Uint32(frame), binary.BigEndian.Uint32(frame[4:]), frame[24:], at+24)
	}
}

func ignoreShort(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// walSum is the checksum of all that was added to it.
type walSum struct {
	order  binary.ByteOrder
	s0, s1 uint32
}

func (s *walSum) add(b []byte) {
	for ; len(b) >= 8; b = b[8:] {
		s.s0 += s.order.Uint32(b) + s.s1
		s.s1 += s.order.Uint32(b[4:]) + s.s0
	}
}

func (s *walSum) is(b []byte) bool {
	return binary.BigEndian.Uint32(b) == s.s0 && binary.BigEndian.Uint32(b[4:]) == s.s1
}
