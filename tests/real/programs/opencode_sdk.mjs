// OpenCode's own SDK, both of its clients, against the server at $URL: prints what came of it as JSON.
import { createOpencodeClient as older } from "@opencode-ai/sdk"
import { createOpencodeClient as newer } from "@opencode-ai/sdk/v2/client"

const headers = { authorization: `Basic ${btoa(`opencode:${process.env.PASSWORD}`)}` }
const settings = { baseUrl: process.env.URL, directory: process.env.DIRECTORY, headers }
const told = {}

function data(answer) {
  if (answer.error) throw new Error(JSON.stringify(answer.error))
  return answer.data
}

// Reads the stream until `done` says so; `seen` grows as events come.
async function follow(stream, seen, done) {
  for await (const event of stream) {
    seen.push(event)
    if (await done(event)) return seen
  }
  return seen
}

async function withNewer() {
  const client = newer(settings)
  const stop = new AbortController()
  const { stream } = await client.event.subscribe({}, { signal: stop.signal })
  // It connects when it is first read.
  const seen = [(await stream.next()).value]
  const session = data(await client.session.create({ agent: "demo", title: "By the SDK" }))
  const sessionID = session.id
  const reading = follow(stream, seen, async (event) => {
    if (event.type === "permission.asked")
      data(await client.permission.reply({ requestID: event.properties.id, reply: "once" }))
    if (event.type === "question.asked")
      data(await client.question.reply({ requestID: event.properties.id, answers: [["blue"]] }))
    return event.type === "session.idle" && event.properties.sessionID === sessionID
  })
  const parts = [{ type: "text", text: "say first || run echo hi || ask Which? || say last" }]
  const answer = data(await client.session.prompt({ sessionID, parts }))
  await reading
  stop.abort()
  const messages = data(await client.session.messages({ sessionID }))
  const fork = data(await client.session.fork({ sessionID }))
  const copied = data(await client.session.messages({ sessionID: fork.id }))
  const renamed = data(await client.session.update({ sessionID, title: "Renamed" }))
  await client.session.promptAsync({ sessionID, parts: [{ type: "text", text: "hang" }] })
  const aborted = data(await client.session.abort({ sessionID }))
  const listed = data(await client.session.list({ roots: true })).map((each) => each.id)
  const missing = await client.session.get({ sessionID: "ses_missing" })
  const deleted = data(await client.session.delete({ sessionID }))
  const left = data(await client.session.list()).map((each) => each.id)
  const providers = data(await client.config.providers()).providers.map((each) => each.id)
  told.newer = {
    title: session.title,
    texts: answer.parts.filter((part) => part.type === "text").map((part) => part.text),
    tools: answer.parts.filter((part) => part.type === "tool").map((part) => part.state.status),
    finish: answer.info.finish,
    kinds: [...new Set(seen.map((event) => event.type))].sort(),
    roles: messages.map((message) => message.info.role),
    parent: fork.parentID === sessionID,
    copied: copied.length,
    renamed: renamed.title,
    aborted,
    listed: listed.includes(sessionID),
    missing: missing.response.status,
    deleted,
    left: left.includes(sessionID),
    demo: providers.includes("demo"),
  }
}

async function withOlder() {
  const client = older(settings)
  const { stream } = await client.event.subscribe()
  const seen = [(await stream.next()).value]
  const session = data(await client.session.create({ body: { title: "Older" } }))
  const path = { id: session.id }
  const reading = follow(stream, seen, async (event) => {
    const asked = event.properties
    if (event.type === "permission.asked")
      data(
        await client.postSessionIdPermissionsPermissionId({
          path: { ...path, permissionID: asked.id },
          body: { response: "once" },
        }),
      )
    return event.type === "session.idle"
  })
  const model = { providerID: "demo", modelID: "demo-smart" }
  const parts = [{ type: "text", text: "run touch older.txt || modelname" }]
  await client.session.promptAsync({ path, body: { model, parts } })
  await reading
  const messages = data(await client.session.messages({ path }))
  const agents = data(await client.app.agents()).map((each) => each.name)
  told.older = {
    text: messages[1].parts.filter((part) => part.type === "text").map((part) => part.text),
    todo: data(await client.session.todo({ path })),
    children: data(await client.session.children({ path })),
    path: data(await client.path.get()).directory,
    demo: agents.includes("demo"),
    mcp: data(await client.mcp.status()),
    deleted: data(await client.session.delete({ path })),
  }
}

await withNewer()
await withOlder()
console.log(JSON.stringify(told))
process.exit(0)
