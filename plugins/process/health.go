package process

import (
	"fmt"
	"slices"
	"strings"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/child"
)

const (
	maxDetail = 500 // bytes of a failure's description
	secretive = 8   // minimum length of an environment value that can be a secret
)

// health returns whether the program runs, nil before its first start.
func (p *program) health() *plugins.Health {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.failed.IsZero():
		if sick := p.sick.Load(); sick != nil {
			return &plugins.Health{Since: p.failed, Detail: p.shown((*sick).Error())}
		}
		return &plugins.Health{Since: p.failed}
	case p.conn == nil:
		return nil
	}
	if at, err := p.conn.ended(); err != nil {
		return &plugins.Health{Since: at, Detail: p.shown(reason(p.conn.child, err).Error()) + "; it is started again when it is needed"}
	}
	return &plugins.Health{OK: true, Since: p.conn.born}
}

// reason adds a program's last lines to the reason of its end.
func reason(c *child.Child, err error) error {
	if words := c.LastWords(); words != "" {
		return fmt.Errorf("%w; it said: %s", err, words)
	}
	return err
}

func (p *program) shown(text string) string { return p.cfg.shown(text) }

// shown removes the values of the program's environment from text.
func (cfg *Config) shown(text string) string {
	values := make([]string, 0, len(cfg.Env))
	for _, v := range cfg.Env {
		if len(v) >= secretive {
			values = append(values, v)
		}
	}
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) }) // one can be a part of another
	for _, v := range values {
		text = strings.ReplaceAll(text, v, "***")
	}
	return strings.ToValidUTF8(text[:min(len(text), maxDetail)], "")
}
