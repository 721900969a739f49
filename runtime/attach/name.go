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

// folder is the path of all users' attachments in a project.
const folder = "agent-inputs/"

// Prefix returns the prefix of the paths of a user's attachments.
func Prefix(user string) string { return folder + escape(user) + "/" }

// Inside reports whether a path is below a user's prefix under every interpretation: percent-decoded any number of
// times, or on a system with backslashes as separators or without trailing dots. An unusual path is outside.
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

// plain reports whether a path element has only ASCII letters, digits and harmless marks. The caller checks % itself.
func plain(element string) bool {
	if element == "" || element[0] == '.' || element[len(element)-1] == '.' {
		return false
	}
	return !strings.ContainsFunc(element, func(r rune) bool { return !unreserved(r) && r != '~' && r != '%' })
}

// Key returns the blob key of an attachment. It begins with the project and is short enough for file systems.
func Key(project, user, p string) string {
	return element(project) + "/" + folder + element(user) + "/" + path.Base(p)
}

// element returns a name as an element of a key: escaped, and if it is too long for a file, cut with a hash of the
// whole.
func element(name string) string {
	const most = 150
	name = escape(name)
	if len(name) <= most {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return name[:64] + "~" + hex.EncodeToString(sum[:])
}

// escape percent-encodes everything but letters, digits, harmless marks, and dots behind the first character.
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

// filename returns a user's file name for display: its last element, without control characters, shortened.
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

// maxFilename is the number of characters in a stored file name.
const maxFilename = 200
