package storage

import (
	"bytes"
	"slices"
	"sync"
)

// unzipper decompresses: a zstd.Decoder.
type unzipper interface {
	DecodeAll(input, dst []byte) ([]byte, error)
	Close()
}

// opener decompresses segments, and keeps some of them: a reader takes one in several pages, and several readers
// may take the same.
type opener struct {
	unzipper

	mu   sync.Mutex // guards the fields below
	kept []opened   // the one that was used last at the end
	size int        // of what is kept
}

// opened is a segment's rows, and what they were compressed to, by which it is known: a segment of which events were
// removed is another one.
type opened struct {
	data []byte
	rows []packed
	size int
}

const (
	keptOpen = 4 << 20 // bytes of what is kept, some thirty segments
	perRow   = 64      // bytes of a row beside its payload
)

// rows returns the segment's rows. They are shared, and must not be changed.
func (o *opener) rows(s *segment) ([]packed, error) {
	if rows := o.find(s.data); rows != nil {
		return rows, nil
	}
	rows, err := s.rows(o.unzipper)
	if err != nil {
		return nil, err
	}
	size := len(s.data)
	for i := range rows {
		size += perRow + len(rows[i].payload)
	}
	if size <= keptOpen/4 {
		o.keep(opened{s.data, rows, size})
	}
	return rows, nil
}

func (o *opener) find(data []byte) []packed {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, found := range slices.Backward(o.kept) {
		if bytes.Equal(found.data, data) {
			o.kept = append(slices.Delete(o.kept, i, i+1), found)
			return found.rows
		}
	}
	return nil
}

func (o *opener) keep(s opened) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kept = append(o.kept, s)
	o.size += s.size
	n := 0
	for ; o.size > keptOpen; n++ {
		o.size -= o.kept[n].size
	}
	o.kept = slices.Delete(o.kept, 0, n)
}
