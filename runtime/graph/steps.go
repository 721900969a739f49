package graph

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/batonrun/baton/runtime/expression"
)

// Limits of schema parts that cost more than their size.
const (
	maxPattern  = 4 << 10 // bytes of a regular expression
	maxPatterns = 10_000  // of all of them, each of which is compiled twice
	maxDepth    = 256
	maxDigits   = 1 << 10 // of a number
	maxExponent = 400     // a number's exponent; numbers are computed exactly
	maxParts    = 5_000   // of schemas in a schema, or in all of a request: compiling one takes tens of microseconds
	fewElements = 16      // of enum and const; more elements take steps of their own
)

// A step is about a microsecond. These fit into one.
const (
	bytesOfStep    = 1 << 10
	elementsOfStep = 8
	matchesOfStep  = 1 << 10 // bytes of text times instructions of a pattern
)

var (
	errSteps   = errors.New("checking them takes too long")
	errNumber  = errors.New("a number is out of range")
	errDeep    = errors.New("values nest too deeply")
	errTwice   = errors.New("an object has a member twice")
	errSchema  = fmt.Errorf("it may have %d bytes", maxSchema)
	errEndless = errors.New("it refers to itself for the same value, without end")
	errParts   = errors.New("it is made of too many parts")
	errPattern = errors.New("its regular expressions are too large")
	errDynamic = errors.New("$dynamicRef and $recursiveRef are not supported")
	errDialect = errors.New("a name of its patternProperties is a regular expression that Go does not know")
)

// checkCost returns an error for values that take long to process: 1e999999 has a million digits, and an error in a deep
// value repeats its path.
func checkCost(v any, depth int) (err error) {
	if depth > maxDepth {
		return errDeep
	}
	switch v := v.(type) {
	case []any:
		for i := 0; i < len(v) && err == nil; i++ {
			err = checkCost(v[i], depth+1)
		}
	case map[string]any:
		for _, e := range v {
			if err == nil {
				err = checkCost(e, depth+1)
			}
		}
	case json.Number:
		digits, exponent := len(v), 0
		if i := strings.IndexAny(string(v), "eE"); i >= 0 {
			digits = i
			exponent, err = strconv.Atoi(string(v[i+1:]))
		}
		if err != nil || digits > maxDigits || max(exponent, -exponent) > maxExponent {
			return errNumber
		}
	}
	return err
}

// members counts the members of all objects in v.
func members(v any) (n int) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			n += members(e)
		}
	case map[string]any:
		n = len(v)
		for _, e := range v {
			n += members(e)
		}
	}
	return n
}

// parts estimates the number of schemas in a schema.
func parts(v any) int {
	n := 0
	switch v := v.(type) {
	case bool:
		n = 1
	case []any:
		for _, e := range v {
			n += parts(e)
		}
	case map[string]any:
		n = 1
		for _, e := range v {
			n += parts(e)
		}
	}
	return n
}

// stepsOf returns the steps for reading a value once, down to its leaves if it is compared.
func stepsOf(v any, deep bool) int {
	switch v := v.(type) {
	case string:
		return len(v) / bytesOfStep
	case []any:
		n := len(v) / elementsOfStep
		for i := range v {
			if deep {
				n += 1 + stepsOf(v[i], true)
			}
		}
		return n
	case map[string]any:
		n := len(v) / elementsOfStep
		for key, e := range v {
			if deep {
				n += 1 + len(key)/bytesOfStep + stepsOf(e, true)
			}
		}
		return n
	}
	return 0
}

// count makes each part of a schema take steps when it is checked. It wraps the part's format, which the validator
// checks before deeper parts.
func (s *Schema) count(v reflect.Value, seen, ends map[*jsonschema.Schema]bool) error {
	switch v.Kind() {
	case reflect.Interface:
		return s.count(v.Elem(), seen, ends)
	case reflect.Slice:
		for i := range v.Len() {
			if err := s.count(v.Index(i), seen, ends); err != nil {
				return err
			}
		}
	case reflect.Map:
		for _, e := range v.Seq2() {
			if err := s.count(e, seen, ends); err != nil {
				return err
			}
		}
	}
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Type() != reflect.TypeFor[*jsonschema.Schema]() {
		return nil
	}
	part := v.Interface().(*jsonschema.Schema)
	if seen[part] {
		return nil
	}
	seen[part] = true
	if part.DynamicRef != nil || part.RecursiveRef != nil {
		return errDynamic
	}
	if endless(part, ends) {
		return errEndless
	}
	for name := range part.PatternProperties {
		if _, ok := name.(foreign); ok {
			return errDialect
		}
	}
	for _, f := range reflect.VisibleFields(v.Type().Elem()) {
		if !f.IsExported() {
			continue
		}
		if err := s.count(v.Elem().FieldByIndex(f.Index), seen, ends); err != nil {
			return err
		}
	}
	s.addSteps(part, comparisonSteps(part))
	return nil
}

// endless reports whether a part validates a value by validating the same value with itself. In ends, true marks a part
// that ends, and false one under examination.
func endless(part *jsonschema.Schema, ends map[*jsonschema.Schema]bool) bool {
	if part == nil {
		return false
	}
	if end, seen := ends[part]; seen {
		return !end
	}
	ends[part] = false
	same := slices.Concat(part.AllOf, part.AnyOf, part.OneOf, []*jsonschema.Schema{part.Ref, part.Not, part.If, part.Then, part.Else})
	same = slices.AppendSeq(same, maps.Values(part.DependentSchemas))
	for _, d := range part.Dependencies {
		if s, ok := d.(*jsonschema.Schema); ok {
			same = append(same, s)
		}
	}
	ends[part] = !slices.ContainsFunc(same, func(s *jsonschema.Schema) bool { return endless(s, ends) })
	return !ends[part]
}

// addSteps makes a part take more steps.
func (s *Schema) addSteps(part *jsonschema.Schema, more int) {
	was, deep := part.Format, part.UniqueItems
	part.Format = &jsonschema.Format{Validate: func(v any) error {
		if s.left -= 1 + more + stepsOf(v, deep); s.left < 0 {
			return errSteps
		}
		if was != nil {
			return was.Validate(v)
		}
		return nil
	}}
	if was != nil {
		part.Format.Name = was.Name
	}
}

// comparisonSteps returns the steps for comparing a value with a part's enum and const, if they are many. The validator would
// compare them before the format, so they move into a part of their own.
func comparisonSteps(part *jsonschema.Schema) int {
	var values []any
	if part.Enum != nil {
		values = append(values, part.Enum.Values)
	}
	if part.Const != nil {
		values = append(values, *part.Const)
	}
	n := stepsOf(values, true)
	if n <= fewElements {
		return 0
	}
	part.AllOf = append(part.AllOf, &jsonschema.Schema{
		DraftVersion: part.DraftVersion, Location: part.Location, Enum: part.Enum, Const: part.Const,
	})
	part.Enum, part.Const = nil, nil
	return n
}

// pattern is a regular expression that takes steps for each match.
type pattern struct {
	*regexp.Regexp
	s    *Schema
	size int // instructions
}

// MatchString reports whether the text matches. Without steps left it does not read the text.
func (p *pattern) MatchString(text string) bool {
	p.s.left -= len(text) * p.size / matchesOfStep
	return p.s.left >= 0 && p.Regexp.MatchString(text)
}

// foreign is a regular expression in another dialect, such as JavaScript's with (?!…). It matches every text.
type foreign string

func (foreign) MatchString(string) bool { return true }
func (f foreign) String() string        { return string(f) }

// compile compiles a pattern of a schema, or a value of the format regex.
func (s *Schema) compile(text string) (jsonschema.Regexp, error) {
	if len(text) > maxPattern {
		return nil, errPattern
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if known := (*syntax.Error)(nil); errors.As(err, &known) {
		switch known.Code {
		case syntax.ErrInvalidPerlOp, syntax.ErrInvalidEscape, syntax.ErrInvalidCharRange, syntax.ErrInvalidRepeatSize:
			return foreign(text), nil
		}
	}
	if err != nil {
		return nil, err
	}
	size := expression.Instructions(parsed)
	left := &s.left
	if s.root == nil {
		left = &s.room.instructions
	}
	if *left -= size; *left < 0 {
		return nil, errPattern
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	return &pattern{re, s, size}, nil
}
