package cmd

import (
	"log/slog"
	"reflect"
	"testing"
	"time"

	"github.com/batonrun/baton/config"
)

func TestSettings_PassLimitsAndTimeouts(t *testing.T) {
	cfg := config.Default()
	for _, section := range []reflect.Value{reflect.ValueOf(&cfg.Limits).Elem(), reflect.ValueOf(&cfg.Timeouts).Elem()} {
		for i := range section.NumField() {
			section.Field(i).SetInt(int64(time.Second) + int64(i)) // unique
		}
	}
	set := settings(cfg, slog.New(slog.DiscardHandler), nil)
	for section, got := range map[reflect.Value]reflect.Value{
		reflect.ValueOf(cfg.Limits):   reflect.ValueOf(set.Limits),
		reflect.ValueOf(cfg.Timeouts): reflect.ValueOf(set.Timeouts),
	} {
		for i := range section.NumField() {
			name := section.Type().Field(i).Name
			if f := got.FieldByName(name); !f.IsValid() || f.Int() != section.Field(i).Int() {
				t.Errorf("%s is not passed to the server", name)
			}
		}
	}
}
