package openapi

import (
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/batonrun/baton/runtime/attach"
	"github.com/batonrun/baton/transports/attachments"
)

// attachments describes the files that users attach to messages.
func (d *describer) attachments() {
	s := &d.schemas
	infer[attachments.Uploaded](s, "Attachment")
	infer[attachments.Signed](s, "SignedURL")
	d.area("Attachments", "Files that messages refer to.")
	d.add("POST /api/v1/agent/attachments", operation{
		ID: "addAttachment", Summary: "Upload an attachment",
		Description: "Add the response to `metadata.attachments` of a message. A file that no message refers to is deleted after a day. Other files " +
			"are deleted with the last thread that refers to them.",
		Parameters: []parameter{projectParam},
		Body: &body{Required: true, Content: map[string]media{"multipart/form-data": {
			Schema: object("A form with one file.", must("file", &jsonschema.Schema{Type: "string", ContentMediaType: "application/octet-stream"})),
		}}},
		Answers: answers{
			"201": reply("The uploaded attachment.", ref("Attachment"), "attachment"),
			"400": refuse("Invalid form.", "one_file", "The form must have one file", "empty_file", "The file is empty",
				"invalid_form", "The form is broken off or not valid"),
			"413": refuse("The file is too large, or your attachments reach a limit.", "attachment_too_large", "A file may have 20971520 bytes",
				"body_too_large", "The request's body is too large",
				"form_too_large", "What a form has around its file may be 65536 bytes", "quota_exceeded",
				"Your attachments may be 1000 files of 1073741824 bytes together; delete threads that you need no more"),
			"415": refuse("The body is not a form, or files of this type are not accepted.", "unsupported_media_type",
				"Files of type text/html are not taken"),
		},
	})
	bucket := query("bucket", text("The project, as returned by the upload.")).required()
	path := query("path", text("The path, as returned by the upload.")).required()
	const noAttachment = "There is no such attachment"
	d.add("GET /api/v1/agent/attachments/signed-url", operation{
		ID: "getAttachmentURL", Summary: "Get a signed URL for an attachment", Parameters: []parameter{bucket, path, projectParam},
		Answers: answers{
			"200": reply("The signed URL.", ref("SignedURL"), "signed-url"),
			"400": refuse("Invalid query parameter.", "invalid_request", "Give bucket and path", "invalid_bucket", "bucket must be the project's"),
			"403": refuse("The path is not one of your own attachments, or the page's Origin is not allowed.", "forbidden",
				"The path is not below that of your own attachments"),
			"404": refuse("The attachment or project does not exist.", "attachment_not_found", noAttachment, "not_found", "Project not found"),
		},
	})
	d.add("GET /api/projects/{projectId}/agent-runs/{runId}/results/{callId}", operation{
		ID: "getResult", Summary: "Get a large tool result", Parameters: []parameter{userParam},
		Description: "Tool results over 1 MiB are stored as files, up to 64 MiB. The event and the message then contain the beginning, the end and " +
			"this URL. The file does not count towards the user's quota and is deleted with its run.",
		Answers: answers{
			"200": {Description: "The complete result.", Content: map[string]media{"text/plain": {Schema: text("")}}},
			"404": refuse("The run does not exist or is not visible to you, or the log has the complete result.", "attachment_not_found", noAttachment, "not_found", "Run not found"),
		},
	})
	files := make(map[string]media)
	for _, kind := range attach.DefaultTypes() {
		files[kind] = media{Schema: text("")}
	}
	d.add("GET /api/v1/attachments/raw", operation{
		ID: "getAttachment", Summary: "Download an attachment by signed URL", Security: nobody,
		Description: "Images (png, jpeg, gif, webp) are served inline, other types as downloads. No content is executed.",
		Parameters: []parameter{
			bucket, path, query("expires", text("From the signed URL.")).required(), query("signature", text("From the signed URL.")).required(),
		},
		Answers: answers{
			"200": {Description: "The file.", Content: files},
			"403": refuse("The URL has expired or was not signed by this server, or the page's Origin is not allowed.", "invalid_signature",
				"The URL has expired or was not signed by this server; ask for another",
				"forbidden", "Web pages of this Origin are not admitted; name it in the setting origins"),
			"404": refuse("The attachment was deleted.", "attachment_not_found", noAttachment),
		},
	})
}
