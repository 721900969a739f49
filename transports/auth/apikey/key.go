// Package apikey implements API keys: credentials that are valid until they are revoked. The database stores their hashes. A
// key is baton_ID_SECRET in lower case, so that scanners of sources and logs recognize it:
//
//	baton_[a-z2-7]{13}_[a-z2-7]{59}
//
// The last seven characters are a checksum, which saves lookups of texts that are not keys. The secret has 256 random
// bits, so its hash is SHA-256 and not a slow password hash.
package apikey

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"strings"
	"time"

	"github.com/batonrun/baton/runtime"
)

const (
	prefix     = "baton_"
	idLength   = 13 // characters
	sumLength  = 7
	secretSize = 32 // bytes
	maxNames   = 100
)

func encode(b []byte) string {
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b))
}

func checksum(text string) string {
	return encode(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte(text))))
}

// New makes a key of a user in projects; the first is the default project. The text is shown once and not stored; row is for the
// database. Name is a label and may be empty. A zero expires means never. It fails for an invalid user, project or role.
func New(name, user string, projects []string, role runtime.Role, expires time.Time) (text string, row runtime.APIKey, err error) {
	if len(projects) == 0 || len(projects) > maxNames {
		return "", row, errors.New("a key is for 1 to 100 projects")
	}
	if name != "" && !runtime.ValidName(name) {
		return "", row, errors.New("a key's name must be 1 to 200 characters without control characters")
	}
	for _, project := range projects {
		if _, err := runtime.NewCaller(project, user, role); err != nil {
			return "", row, err
		}
	}
	var random [8 + secretSize]byte
	_, _ = rand.Read(random[:]) // it never fails
	id := encode(random[:8])
	text = prefix + id + "_" + encode(random[8:])
	text += checksum(text)
	row = runtime.APIKey{
		ID: id, Name: name, Hash: hashed(text), User: user, Projects: projects, Role: role.String(), CreatedAt: time.Now(),
	}
	if !expires.IsZero() {
		row.ExpiresAt = &expires
	}
	return text, row, nil
}

func hashed(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// parse returns the id of a well-formed key.
func parse(text string) (id string, ok bool) {
	rest, ok := strings.CutPrefix(text, prefix)
	if !ok || len(rest) <= idLength+1+sumLength || rest[idLength] != '_' {
		return "", false
	}
	body, sum := text[:len(text)-sumLength], text[len(text)-sumLength:]
	id = rest[:idLength]
	return id, checksum(body) == sum && !strings.ContainsFunc(id, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '2' || r > '7')
	})
}
