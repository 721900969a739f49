package openapi

import (
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/batonrun/baton/runtime/attach"
	"github.com/batonrun/baton/transports/attachments"
)

// attachments describes the files that users attach to messages.
func (d *describer) attachments() {
	s := &d.schemas
	infer[attachments.Uploaded](s, "Attachment", "A file that is there for messages to refer to, in their `metadata.attachments`.",
		says("bucket", "The project."), says("path", "Where it is in the project."),
		says("mimeType", "What it is, by its bytes."), says("size", "In bytes."), says("filename", "What you call it."))
	infer[attachments.Signed](s, "SignedURL", "Where an attachment is for a while.",
		says("url", "Whoever has it gets the file, without a credential, until it expires."))
	d.area("Attachments", "Files that messages refer to.")
	d.add("POST /api/v1/agent/attachments", operation{
		ID: "addAttachment", Summary: "Upload a file for messages to refer to",
		Description: "What is answered stands in a message's `metadata.attachments`. A file that no message refers to is removed " +
			"after a day, any other with the last thread that does.",
		Parameters: []parameter{projectParam},
		Body: &body{Required: true, Content: map[string]media{"multipart/form-data": {
			Schema: object("A form with one file.", must("file", &jsonschema.Schema{Type: "string", ContentMediaType: "application/octet-stream"})),
		}}},
		Answers: answers{
			"201": reply("It is there.", ref("Attachment"), "attachment"),
			"400": refuse("The form is wrong.", "one_file", "The form must have one file", "empty_file", "The file is empty",
				"invalid_form", "The form is broken off or not valid"),
			"413": refuse("The file is too large, or you have too many.", "attachment_too_large", "A file may have 20971520 bytes",
				"body_too_large", "The request's body is too large",
				"form_too_large", "What a form has around its file may be 65536 bytes", "quota_exceeded",
				"Your attachments may be 1000 files of 1073741824 bytes together; delete threads that you need no more"),
			"415": refuse("It is no form, or the file is of a type that is not taken.", "unsupported_media_type",
				"Files of type text/html are not taken"),
		},
	})
	bucket := query("bucket", text("The project, as the upload's answer says.")).required()
	path := query("path", text("Where the attachment is, as the upload's answer says.")).required()
	const noAttachment = "There is no such attachment"
	d.add("GET /api/v1/agent/attachments/signed-url", operation{
		ID: "getAttachmentURL", Summary: "Ask where an attachment of yours is", Parameters: []parameter{bucket, path, projectParam},
		Answers: answers{
			"200": reply("Where it is for a while.", ref("SignedURL"), "signed-url"),
			"400": refuse("A parameter is wrong.", "invalid_request", "Give bucket and path", "invalid_bucket", "bucket must be the project's"),
			"403": refuse("The path is not below that of your own attachments, or the page's Origin is not admitted.", "forbidden",
				"The path is not below that of your own attachments"),
			"404": refuse("It is not there.", "attachment_not_found", noAttachment, "not_found", "Project not found"),
		},
	})
	d.add("GET /api/projects/{projectId}/agent-runs/{runId}/results/{callId}", operation{
		ID: "getResult", Summary: "Get a tool's result that is too large for the log", Parameters: []parameter{userParam},
		Description: "A result of more than 1 MiB is a file, up to 64 MiB; its event and its message have its beginning, its end and this address. " +
			"It does not count towards the user's quota, and is removed with its run.",
		Answers: answers{
			"200": {Description: "The whole result.", Content: map[string]media{"text/plain": {Schema: text("")}}},
			"404": refuse("There is no such run, or the result is whole in the log.", "attachment_not_found", noAttachment, "not_found", "Run not found"),
		},
	})
	files := make(map[string]media)
	for _, kind := range attach.DefaultTypes() {
		files[kind] = media{Schema: text("")}
	}
	d.add("GET /api/v1/attachments/raw", operation{
		ID: "getAttachment", Summary: "Get an attachment by a signed URL", Security: nobody,
		Description: "Images (png, jpeg, gif, webp) are shown where they are, anything else is saved; nothing is run.",
		Parameters: []parameter{
			bucket, path, query("expires", text("As signed.")).required(), query("signature", text("As signed.")).required(),
		},
		Answers: answers{
			"200": {Description: "The file.", Content: files},
			"403": refuse("The URL has expired or was not signed here, or the page's Origin is not admitted.", "invalid_signature",
				"The URL has expired or was not signed by this server; ask for another",
				"forbidden", "Web pages of this Origin are not admitted; name it in the setting origins"),
			"404": refuse("It has been removed.", "attachment_not_found", noAttachment),
		},
	})
}
