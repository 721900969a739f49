package eventlog

import (
	"encoding/binary"
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// Segment is rows of one thread, compressed together. Before compression a row is its run, its first and last event id and the length
// of its payload as uvarints, and the payload.
type Segment struct {
	Thread      int64
	First, Last int64 // event ids
	Events      int
	Data        []byte
}

// NewSegment compresses rows.
func NewSegment(z *zstd.Encoder, rows []Row) Segment {
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
	s.Data = z.EncodeAll(plain, nil)
	return s
}

// Rows decompresses the segment.
func (s *Segment) Rows(z Decoder) ([]Row, error) {
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
