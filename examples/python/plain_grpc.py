"""The same with nothing but grpcio and the generated stubs: no client of ours, no asyncio."""

import os
import sys
from pathlib import Path

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from agentctl import v1
from agentctl.v1 import approvals_pb2_grpc, events_pb2_grpc, runs_pb2_grpc, sessions_pb2_grpc

DATA_DIR = os.environ.get("AGENTCTL_DATA_DIR", str(Path("~/.local/share/agentctl").expanduser()))
ADDRESS = os.environ.get("AGENTCTL_ADDRESS", f"unix:{DATA_DIR}/run/agentctl.sock")
TOKEN = os.environ.get("AGENTCTL_TOKEN")
METADATA = (("authorization", f"Bearer {TOKEN}"),) if TOKEN else ()


def reason(error: grpc.RpcError) -> str:
    """The word for programs (AGENT_NOT_FOUND ...) in a failed call."""
    status = rpc_status.from_call(error)
    info = error_details_pb2.ErrorInfo()
    for detail in status.details if status else ():
        if detail.Unpack(info):
            return info.reason
    return ""


def main(agent: str = "demo", prompt: str = "hello", workspace: str = ".") -> None:
    with grpc.insecure_channel(ADDRESS) as channel:
        sessions = sessions_pb2_grpc.SessionsStub(channel)
        runs = runs_pb2_grpc.RunsStub(channel)
        approvals = approvals_pb2_grpc.ApprovalsStub(channel)
        events = events_pb2_grpc.EventsStub(channel)

        session = sessions.Create(
            v1.CreateSessionRequest(
                agent=agent,
                workspace=str(Path(workspace).resolve()),
                policy=v1.Policy.POLICY_ASK,
                wait_ready=True,
            ),
            metadata=METADATA,
        )
        text = v1.ContentBlock(type=v1.ContentType.CONTENT_TYPE_TEXT, text=prompt)
        request = v1.CreateRunRequest(
            session_id=session.session_id, input=v1.RunInput(blocks=[text])
        )
        run = runs.Create(request, metadata=METADATA).run
        wanted = v1.SubscribeRequest(runs=[run.run_id], follow=True)
        for batch in events.Subscribe(wanted, metadata=METADATA):
            for event in batch.events:
                if event.HasField("message_chunk"):
                    print(event.message_chunk.text, end="", flush=True)
                elif event.HasField("permission_request"):
                    asked = event.permission_request
                    print(f"\n[allowed] {asked.title}")
                    answer = v1.RespondRequest(
                        approval_id=asked.approval_id, decision=v1.Verdict.VERDICT_APPROVE
                    )
                    approvals.Respond(answer, metadata=METADATA)
                elif event.HasField("complete"):
                    print(f"\n[{v1.Outcome.Name(event.complete.outcome)}]")
        sessions.Close(v1.CloseSessionRequest(session_id=session.session_id), metadata=METADATA)


try:
    main(*sys.argv[1:])
except grpc.RpcError as error:
    sys.exit(f"{error.details()}  {reason(error)}")
