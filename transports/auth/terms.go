package auth

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

// Watcher is an Authenticator that can take credentials back.
type Watcher interface {
	// Valid reports whether a credential, by its Identity.Watch, is still accepted. It is called for tickets made with the credential;
	// the result may be a minute old.
	Valid(ctx context.Context, credential string) (bool, error)
	// Ended returns the credentials that are no longer accepted. It is called once a minute with the credentials of all open
	// streams.
	Ended(ctx context.Context, credentials []string) ([]string, error)
}

// ErrEnded is the cause of a stream's end with its credential.
var ErrEnded = unauthorized("credential_ended", "The credential has expired or was revoked")

// Terms end streams with their credentials: at expiry, and for a Watcher's within a minute after a revocation. While the Watcher
// fails, streams stay open.
type Terms struct {
	watcher Watcher // nil when credentials cannot be revoked
	every   time.Duration
	log     *slog.Logger
	tasks   sync.WaitGroup // the goroutine that calls the watcher
	quit    chan struct{}  // closed by Close

	mu       sync.Mutex // guards the fields below
	open     map[termKey]*term
	watching bool
	closed   bool
}

// termKey is a credential as one request has brought it: that of a ticket ends before the one that it was made with.
type termKey struct {
	credential, watched string
	expires             time.Time
}

// term is a credential with its open streams.
type term struct {
	holders map[*holder]struct{}
	expiry  *time.Timer // nil when it does not expire
}

// holder is an open stream or request.
type holder struct {
	mu  sync.Mutex  // guards end, and is held while it is called
	end func(error) // nil once it was released
}

func (h *holder) over() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.end != nil {
		h.end(ErrEnded)
	}
}

func (h *holder) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.end = nil
}

// NewTerms returns Terms of the credentials that a knows. A may be nil.
func NewTerms(a Authenticator, log *slog.Logger) *Terms {
	t := &Terms{every: time.Minute, log: log, quit: make(chan struct{}), open: make(map[termKey]*term)}
	t.watcher, _ = a.(Watcher)
	return t
}

// Term is the validity of a credential. The zero Term has no end.
type Term struct {
	terms               *Terms
	credential, watched string
	expires             time.Time
}

// Watch has end called with ErrEnded, by another goroutine, when the term is over, unless release was called before: once
// that has returned it is not called any more. End must not block, nor call release.
func (t Term) Watch(end func(error)) (release func()) {
	if t.terms == nil || t.expires.IsZero() && (t.terms.watcher == nil || t.watched == "") {
		return func() {}
	}
	h := &holder{end: end}
	key := termKey{t.credential, t.watched, t.expires.Round(0)} // by the wall clock alone, as others have it
	t.terms.add(key, h)
	return func() {
		t.terms.remove(key, h)
		h.release()
	}
}

func (t *Terms) add(key termKey, h *holder) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.open[key]
	if of == nil {
		of = &term{holders: make(map[*holder]struct{})}
		t.open[key] = of
		if !key.expires.IsZero() {
			of.expiry = time.AfterFunc(time.Until(key.expires), func() { t.over(key) })
		}
	}
	of.holders[h] = struct{}{}
	if !t.watching && !t.closed {
		t.watching = true
		t.tasks.Go(t.watch)
	}
}

func (t *Terms) remove(key termKey, h *holder) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.open[key]
	if of == nil {
		return
	}
	if delete(of.holders, h); len(of.holders) == 0 {
		t.forget(key)
	}
}

// forget removes a term. The caller holds mu.
func (t *Terms) forget(key termKey) {
	if of := t.open[key]; of != nil {
		if of.expiry != nil {
			of.expiry.Stop()
		}
		delete(t.open, key)
	}
}

// over ends the streams of a credential.
func (t *Terms) over(key termKey) {
	t.mu.Lock()
	of := t.open[key]
	t.forget(key)
	t.mu.Unlock()
	if of == nil {
		return
	}
	for h := range of.holders {
		h.over()
	}
}

// End ends at once the streams of a credential, by its id.
func (t *Terms) End(credential string) {
	t.endThose(func(key termKey) bool { return key.credential == credential })
}

// endThose ends the streams of the selected credentials.
func (t *Terms) endThose(meant func(termKey) bool) {
	t.mu.Lock()
	var keys []termKey
	for key := range t.open {
		if meant(key) {
			keys = append(keys, key)
		}
	}
	t.mu.Unlock()
	for _, key := range keys {
		t.over(key)
	}
}

// Check looks now at the credentials that are meant, as the watch does within a minute.
func (t *Terms) Check(ctx context.Context, meant func(credential string) bool) {
	t.mu.Lock()
	keys := slices.Collect(maps.Keys(t.open))
	t.mu.Unlock()
	t.look(ctx, slices.DeleteFunc(keys, func(key termKey) bool { return !meant(key.credential) && !meant(key.watched) }))
}

// Close stops the watch. Open streams end only when their credentials expire.
func (t *Terms) Close() {
	t.mu.Lock()
	if !t.closed {
		t.closed = true
		close(t.quit)
	}
	t.mu.Unlock()
	t.tasks.Wait()
}

// watch calls the watcher while any stream is open. It ends then, and with Close.
func (t *Terms) watch() {
	tick := time.NewTicker(t.every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-t.quit:
			return
		}
		keys, ok := t.held()
		if !ok {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), t.every/2)
		t.look(ctx, keys)
		cancel()
	}
}

// held returns the credentials with open streams. If there are none it marks the watch as ended.
func (t *Terms) held() (keys []termKey, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watching = len(t.open) > 0
	return slices.Collect(maps.Keys(t.open)), t.watching
}

// look ends the streams of expired credentials, by the wall clock, which may have been set, and of revoked ones.
func (t *Terms) look(ctx context.Context, keys []termKey) {
	now := time.Now().Round(0)
	watched := make(map[string]struct{}, len(keys))
	for _, key := range keys {
		if !key.expires.IsZero() && !now.Before(key.expires) {
			t.over(key)
		} else if key.watched != "" {
			watched[key.watched] = struct{}{}
		}
	}
	if t.watcher == nil || len(watched) == 0 {
		return
	}
	ended, err := t.watcher.Ended(ctx, slices.Collect(maps.Keys(watched)))
	if err != nil {
		t.log.Warn("it is not known which credentials were revoked", "error", err)
	}
	for _, what := range ended {
		t.endThose(func(key termKey) bool { return key.watched == what })
	}
}
