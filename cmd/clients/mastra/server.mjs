// An AG-UI server as Mastra's users build it: an agent behind Mastra's adapter, with a local model.
import { createServer } from 'node:http'
import { EventEncoder } from '@ag-ui/encoder'
import { MastraAgent } from '@ag-ui/mastra'
import { Mastra } from '@mastra/core'
import { Agent } from '@mastra/core/agent'
import { InMemoryStore } from '@mastra/core/storage'
import { createTool } from '@mastra/core/tools'
import { z } from 'zod'

// The model calls the tool that the last message names, and repeats the tool's result.
const answer = (prompt) => {
	const last = prompt.at(-1)
	if (last.role === 'tool') {
		const out = last.content.at(-1).output
		return { text: `it gave ${typeof out.value === 'string' ? out.value : JSON.stringify(out.value)}` }
	}
	const text = last.content.map((part) => part.text ?? '').join('')
	const [, tool, input] = text.match(/^call (\w+) (.*)$/) ?? []
	return tool ? { tool, input } : { text: `you said ${text}, and ${prompt.filter((m) => m.role === 'user').length} things in all` }
}

const usage = { inputTokens: 3, outputTokens: 4, totalTokens: 7 }

const model = {
	specificationVersion: 'v2',
	provider: 'made-here',
	modelId: 'model',
	supportedUrls: {},
	async doGenerate() {
		throw new Error('it only streams')
	},
	async doStream({ prompt }) {
		const { text, tool, input } = answer(prompt)
		const parts = [{ type: 'stream-start', warnings: [] }]
		if (tool) {
			parts.push({ type: 'tool-call', toolCallId: `call-${prompt.length}`, toolName: tool, input })
		} else {
			parts.push({ type: 'text-start', id: 't' })
			for (const word of text.split(/(?<= )/)) parts.push({ type: 'text-delta', id: 't', delta: word })
			parts.push({ type: 'text-end', id: 't' })
		}
		parts.push({ type: 'finish', finishReason: tool ? 'tool-calls' : 'stop', usage })
		return { stream: ReadableStream.from(parts) }
	},
}

const double = createTool({
	id: 'double',
	description: 'Doubles a number',
	inputSchema: z.object({ n: z.number() }),
	execute: async (input) => ({ doubled: 2 * (input.n ?? input.context?.n) }),
})

// A tool that is suspended until a person answers.
const book = createTool({
	id: 'book',
	description: 'Books a room',
	inputSchema: z.object({ city: z.string() }),
	suspendSchema: z.object({ question: z.string() }),
	resumeSchema: z.object({ yes: z.boolean() }),
	execute: async ({ city }, { agent: { resumeData, suspend } }) => (resumeData ? { city, booked: resumeData.yes } : suspend({ question: `Book ${city}?` })),
})

const agent = new Agent({ id: 'maker', name: 'maker', instructions: 'Answer.', model, tools: { double, book } })
new Mastra({ agents: { maker: agent }, storage: new InMemoryStore(), logger: false })

createServer(async (req, res) => {
	let body = ''
	for await (const piece of req) body += piece
	const encoder = new EventEncoder()
	res.writeHead(200, { 'content-type': encoder.getContentType() })
	const events = new MastraAgent({ agent, resourceId: 'someone' }).run(JSON.parse(body))
	const reading = events.subscribe({
		next: (event) => res.write(encoder.encode(event)),
		error: (error) => res.end(encoder.encode({ type: 'RUN_ERROR', message: String(error?.message ?? error) })),
		complete: () => res.end(),
	})
	res.on('close', () => reading.unsubscribe())
}).listen(Number(process.env.PORT), '127.0.0.1')
