package eventlog

import (
	"encoding/binary"
	"fmt"
)

// Segment is rows of one thread, compressed together. Before compression a row is its run, its first and last event id and the length
// of its payload as uvarints, and the payload.
type Segment struct {
	Thread      int64
	First, Last int64 // event ids
	Events      int
	Data        []byte
}

// Segment compresses rows.
func (c *Codec) Segment(rows []Row) Segment {
	s := Segment{Thread: rows[0].Thread, First: rows[0].First, Last: rows[len(rows)-1].Last}
	var plain []byte
	for i := range rows {
		r := &rows[i]
		s.Events += int(r.Last - r.First + 1)
		for _, n := range []int64{r.Run, r.First, r.Last, int64(len(r.Payload))} {
			plain = binary.AppendUvarint(plain, uint64(n))
		}
		plain = append(plain, r.Payload...)
	}
	s.Data = c.zip.EncodeAll(plain, nil)
	return s
}

// Without returns the segment without the rows of a run, and the number of these rows. It has no events when nothing is left.
func (c *Codec) Without(s *Segment, run int64) (left Segment, n int, err error) {
	rows, err := s.rows(c.Decoder)
	if err != nil {
		return left, 0, err
	}
	kept := rows[:0]
	for _, row := range rows {
		if row.Run != run {
			kept = append(kept, row)
		}
	}
	n = len(rows) - len(kept)
	if n > 0 && len(kept) > 0 {
		left = c.Segment(kept)
	}
	return left, n, nil
}

// rows decompresses the segment.
func (s *Segment) rows(z Decoder) ([]Row, error) {
	plain, err := z.DecodeAll(s.Data, nil)
	if err != nil {
		return nil, fmt.Errorf("segment %d to %d of thread %d: %w", s.First, s.Last, s.Thread, err)
	}
	var rows []Row
	for len(plain) > 0 {
		var head [4]int64
		for i := range head {
			v, n := binary.Uvarint(plain)
			if n <= 0 {
				return nil, s.damaged()
			}
			head[i], plain = int64(v), plain[n:]
		}
		size := head[3]
		if size < 0 || size > int64(len(plain)) {
			return nil, s.damaged()
		}
		rows = append(rows, Row{
			Thread: s.Thread, Run: head[0], First: head[1], Last: head[2], Payload: plain[:size:size],
		})
		plain = plain[size:]
	}
	return rows, nil
}

func (s *Segment) damaged() error {
	return fmt.Errorf("segment %d to %d of thread %d is damaged", s.First, s.Last, s.Thread)
}
