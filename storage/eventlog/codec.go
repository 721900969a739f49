package eventlog

import (
	"bytes"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Decoder decompresses: a zstd.Decoder.
type Decoder interface {
	DecodeAll(input, dst []byte) ([]byte, error)
	Close()
}

// Codec compresses rows into segments and decompresses them. It caches some segments: a reader needs a segment for several pages, and
// several readers may need the same one.
type Codec struct {
	Decoder
	zip *zstd.Encoder

	mu     sync.Mutex // guards the fields below
	cached []cached   // the one that was used last at the end
	size   int        // of all of them
}

// cached is the rows of a segment. Its key is the compressed data, which changes when events are removed.
type cached struct {
	data []byte
	rows []Row
	size int
}

const (
	maxCached = 4 << 20 // bytes, some thirty segments
	perRow    = 64      // bytes of a row beside its payload
)

// NewCodec returns a codec.
func NewCodec() (*Codec, error) {
	unzip, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0))
	if err != nil {
		return nil, err
	}
	zip, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	return &Codec{Decoder: unzip, zip: zip}, err
}

// Rows returns the segment's rows. They are shared, and must not be changed.
func (c *Codec) Rows(s *Segment) ([]Row, error) {
	if rows := c.find(s.Data); rows != nil {
		return rows, nil
	}
	rows, err := s.rows(c.Decoder)
	if err != nil {
		return nil, err
	}
	size := len(s.Data)
	for i := range rows {
		size += perRow + len(rows[i].Payload)
	}
	if size <= maxCached/4 {
		c.add(cached{s.Data, rows, size})
	}
	return rows, nil
}

func (c *Codec) find(data []byte) []Row {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, found := range slices.Backward(c.cached) {
		if bytes.Equal(found.data, data) {
			c.cached = append(slices.Delete(c.cached, i, i+1), found)
			return found.rows
		}
	}
	return nil
}

// add caches a segment, and evicts those that were not used for longest.
func (c *Codec) add(s cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cached = append(c.cached, s)
	c.size += s.size
	n := 0
	for ; c.size > maxCached; n++ {
		c.size -= c.cached[n].size
	}
	c.cached = slices.Delete(c.cached, 0, n)
}
