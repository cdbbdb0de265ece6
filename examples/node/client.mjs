// Prompts an agent over gRPC, shows what it does and allows what it asks for.
// usage: node client.mjs [AGENT] [PROMPT] [WORKSPACE]
import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const protos = fileURLToPath(new URL("../../proto", import.meta.url));
const files = ["sessions", "runs", "events", "approvals"].map((name) => `agentctl/v1/${name}.proto`);
// `defaults: false` keeps apart what was not told and what is 0 or "".
const definition = loader.loadSync(files, {
  includeDirs: [protos], keepCase: true, longs: Number, enums: String, defaults: false, oneofs: true,
});
const { v1 } = grpc.loadPackageDefinition(definition).agentctl;

const dataDir = process.env.AGENTCTL_DATA_DIR ?? path.join(os.homedir(), ".local/share/agentctl");
const address = process.env.AGENTCTL_ADDRESS ?? `unix:${dataDir}/run/agentctl.sock`;
const metadata = new grpc.Metadata();
if (process.env.AGENTCTL_TOKEN) metadata.set("authorization", `Bearer ${process.env.AGENTCTL_TOKEN}`);

function connect(Service) {
  const stub = new Service(address, grpc.credentials.createInsecure());
  const call = (method, request) => promisify(stub[method].bind(stub))(request, metadata);
  return { stub, call };
}
const sessions = connect(v1.Sessions);
const runs = connect(v1.Runs);
const events = connect(v1.Events);
const approvals = connect(v1.Approvals);

const [agent = "demo", prompt = "hello", workspace = process.cwd()] = process.argv.slice(2);
const session = await sessions.call("Create", {
  agent, workspace: path.resolve(workspace), policy: "POLICY_ASK", wait_ready: true,
});
const { run } = await runs.call("Create", {
  session_id: session.session_id,
  input: { blocks: [{ type: "CONTENT_TYPE_TEXT", text: prompt }] },
});

// The stream of one run ends by itself after the run's `complete`.
const stream = events.stub.Subscribe({ runs: [run.run_id], follow: true }, metadata);
for await (const batch of stream) {
  for (const event of batch.events ?? []) {
    const data = event[event.payload];
    if (event.payload === "message_chunk" && data.role === "ROLE_ASSISTANT") {
      process.stdout.write(data.text ?? "");
    } else if (event.payload === "tool_call") {
      console.log(`\n[tool] ${data.title ?? data.name}`);
    } else if (event.payload === "permission_request") {
      console.log(`[allowed] ${data.title}`);
      await approvals.call("Respond", { approval_id: data.approval_id, decision: "VERDICT_APPROVE" });
    } else if (event.payload === "complete") {
      console.log(`\n[${data.outcome.replace("OUTCOME_", "").toLowerCase()}]`);
    }
  }
}
await sessions.call("Close", { session_id: session.session_id });
