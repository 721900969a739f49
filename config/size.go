package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes. As text it is a whole number with a unit, such as 256KiB (1024 bytes each)
// or 8MB (1000·1000 bytes each), or without one.
type Size int64

const (
	kilobyte Size = 1000
	megabyte      = 1000 * kilobyte
	gigabyte      = 1000 * megabyte

	kibibyte Size = 1024
	mebibyte      = 1024 * kibibyte
	gibibyte      = 1024 * mebibyte
)

var units = []struct {
	name string
	size Size
}{
	{"GiB", gibibyte}, {"GB", gigabyte}, {"MiB", mebibyte}, {"MB", megabyte}, {"KiB", kibibyte}, {"kB", kilobyte}, {"B", 1},
}

// String returns the size in the largest unit that leaves it whole: 2MiB, 8MB, 1023.
func (s Size) String() string {
	for _, u := range units {
		if u.size > 1 && s != 0 && s%u.size == 0 {
			return strconv.FormatInt(int64(s/u.size), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// MarshalText returns String.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the form that String writes. It ignores the case of units and accepts B and a space before a unit.
func (s *Size) UnmarshalText(text []byte) error {
	unit := Size(1)
	digits := strings.TrimSpace(string(text))
	for _, u := range units {
		if n := len(digits) - len(u.name); n > 0 && strings.EqualFold(digits[n:], u.name) {
			digits, unit = strings.TrimSpace(digits[:n]), u.size
			break
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/int64(unit) {
		return fmt.Errorf("want a size such as 8MiB, got %q", text)
	}
	*s = Size(n) * unit
	return nil
}
