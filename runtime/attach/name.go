package attach

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// folder is where a user's attachments are in the project.
const folder = "agent-inputs/"

// Prefix is what the paths of a user's attachments begin with.
func Prefix(user string) string { return folder + escape(user) + "/" }

// Inside reports whether a path is below a user's prefix, whoever reads it: as it stands, with its percent-encoding undone
// once or more often, on a system that takes a backslash for a slash or forgets dots at a name's end. A path that is not
// plain enough to tell is outside.
func Inside(user, p string) bool {
	rest, ok := strings.CutPrefix(p, Prefix(user))
	for ok {
		for element := range strings.SplitSeq(rest, "/") {
			if !plain(element) {
				return false
			}
		}
		if !strings.Contains(rest, "%") {
			return true
		}
		decoded, err := url.PathUnescape(rest)
		rest, ok = decoded, err == nil
	}
	return false
}

// plain reports whether a path's element is a name: ASCII letters and digits, and of marks those that mean nothing. A %
// is looked into later.
func plain(element string) bool {
	if element == "" || element[0] == '.' || element[len(element)-1] == '.' {
		return false
	}
	return !strings.ContainsFunc(element, func(r rune) bool { return !unreserved(r) && r != '~' && r != '%' })
}

// Key is under what the bytes of an attachment are kept. It begins with the project, and is as long as file systems take.
func Key(project, user, p string) string {
	return element(project) + "/" + folder + element(user) + "/" + path.Base(p)
}

// element is a name as an element of a key: escaped, and cut where it is too long for a file, with a hash of the whole.
func element(name string) string {
	const most = 150
	name = escape(name)
	if len(name) <= most {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return name[:64] + "~" + hex.EncodeToString(sum[:])
}

// escape percent-encodes all of a name but letters, digits and marks that are harmless in a path; a dot it begins with too.
func escape(name string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		if c < utf8.RuneSelf && unreserved(rune(c)) && (c != '.' || i > 0 && i < len(name)-1) {
			b.WriteByte(c)
			continue
		}
		b.Write([]byte{'%', digits[c>>4], digits[c&15]})
	}
	return b.String()
}

func unreserved(r rune) bool {
	return r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_' || r == '.')
}

// filename is what a user calls a file, fit to be shown: its last element, without controls, not too long.
func filename(name string) string {
	name = strings.ToValidUTF8(name, "\uFFFD")
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	name = strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return -1
		}
		return r
	}, name))
	if r := []rune(name); len(r) > maxFilename {
		ext := []rune(path.Ext(name))
		if len(ext) > 20 {
			ext = nil
		}
		name = string(r[:maxFilename-len(ext)]) + string(ext)
	}
	if strings.Trim(name, ".") == "" {
		return "file"
	}
	return name
}

// maxFilename is how many characters of a file's name are kept.
const maxFilename = 200
