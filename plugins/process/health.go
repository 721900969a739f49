package process

import (
	"slices"
	"strings"

	"github.com/batonrun/baton/plugins"
)

const (
	maxDetail = 500 // bytes of what is told of a failure
	secretive = 8   // as long is a value of an environment that may be a secret
)

// health tells whether the program runs, nil when it was not started yet.
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
		return &plugins.Health{Since: at, Detail: p.shown(err.Error()) + "; it is started again when it is needed"}
	}
	return &plugins.Health{OK: true, Since: p.conn.born}
}

// shown is text without the values of the program's environment, which it may have said.
func (p *program) shown(text string) string {
	values := make([]string, 0, len(p.cfg.Env))
	for _, v := range p.cfg.Env {
		if len(v) >= secretive {
			values = append(values, v)
		}
	}
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) }) // one may be a part of another
	for _, v := range values {
		text = strings.ReplaceAll(text, v, "***")
	}
	return strings.ToValidUTF8(text[:min(len(text), maxDetail)], "")
}
