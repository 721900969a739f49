package openapi

import (
	"bytes"
	"encoding/json"
)

// ordered is an object that keeps the order of its members, for readers.
type ordered[T any] struct {
	names  []string
	values map[string]T
}

func (o *ordered[T]) add(name string, value T) {
	if o.values == nil {
		o.values = make(map[string]T)
	}
	o.names = append(o.names, name)
	o.values[name] = value
}

func (o *ordered[T]) get(name string) (T, bool) {
	value, ok := o.values[name]
	return value, ok
}

// MarshalJSON returns the object.
func (o ordered[T]) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, name := range o.names {
		if i > 0 {
			b.WriteByte(',')
		}
		key, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(o.values[name])
		if err != nil {
			return nil, err
		}
		b.Write(append(append(key, ':'), value...))
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}
