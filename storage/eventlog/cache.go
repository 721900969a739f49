package eventlog

import (
	"bytes"
	"slices"
	"sync"
)

// Decoder decompresses: a zstd.Decoder.
type Decoder interface {
	DecodeAll(input, dst []byte) ([]byte, error)
	Close()
}

// Cache decompresses segments, and caches some of them: a reader needs a segment for several pages, and several readers may need the
// same one.
type Cache struct {
	Decoder

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

// NewCache returns a cache that decompresses with d.
func NewCache(d Decoder) *Cache { return &Cache{Decoder: d} }

// Rows returns the segment's rows. They are shared, and must not be changed.
func (c *Cache) Rows(s *Segment) ([]Row, error) {
	if rows := c.find(s.Data); rows != nil {
		return rows, nil
	}
	rows, err := s.Rows(c.Decoder)
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

func (c *Cache) find(data []byte) []Row {
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
func (c *Cache) add(s cached) {
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
