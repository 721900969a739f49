package wire

import (
	"slices"
	"strings"

	"github.com/batonrun/baton/runtime/agui"
)

// Caps are the capabilities of a server. The zero value is a server like OpenAI's that refuses nothing. A server's needs are known
// from its provider, its address, configuration and its refusals.
type Caps struct {
	System      string   // "user" puts the instructions before the first user's message; by default they are a message of their own
	FirstUser   bool     // the conversation begins with a user's message
	Bridge      bool     // an assistant's message is between a tool's result and a user's message
	Content     string   // of a message that has only calls: "" or "empty", "absent" or "null"
	IDs         IDForm   // of calls
	Reasoning   string   // member of a message with earlier reasoning, "" for that in which it came, "none" to send none
	Missing     bool     // the member Reasoning is needed even if there was no reasoning
	Signed      bool     // calls of the current turn need a signature, of whatever model, for Google's
	Media       []string // media types of images and files, such as image/png or audio/*
	URLs        bool     // images can be URLs that the provider fetches
	Tools       int      // the maximum number, 0 for no limit
	Description int      // bytes of a tool's description, 0 for no limit
	Schema      Dialect  // of the parameters of tools
	MaxTokens   string   // member for the limit of an answer, if a protocol has two
	Without     []string // members of a request that are left out
}

// Takes reports whether the model gets parts of a media type, or images by their URLs.
func (c Caps) Takes(mediaType string, url bool) bool {
	if url {
		return c.URLs && slices.ContainsFunc(c.Media, isImage)
	}
	return agui.Textual(mediaType) || slices.ContainsFunc(c.Media, func(t string) bool {
		prefix, all := strings.CutSuffix(t, "*")
		return t == mediaType || all && strings.HasPrefix(mediaType, prefix)
	})
}

func isImage(mediaType string) bool { return strings.HasPrefix(mediaType, "image/") }
