"""Owns the calls of Artifacts, Tools, Environments, Stats and Tasks in Python's terms.

Every method raises AgentctlError; what a daemon does not serve raises Unsupported.
"""

from collections.abc import AsyncIterator, Sequence

from agentctl import v1
from agentctl.client.channel import Connection
from agentctl.rpc.enums import number


class Artifacts:
    """What runs made."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(
        self,
        *,
        session_id: str = "",
        run_id: str = "",
        kinds: Sequence[str] = (),
        page_size: int = 0,
        page_token: str = "",
    ) -> v1.ListArtifactsResponse:
        request = v1.ListArtifactsRequest(
            session_id=session_id,
            run_id=run_id,
            kinds=[number(v1.ArtifactKind, word, field="kinds") for word in kinds],
            page_size=page_size,
            page_token=page_token,
        )
        return await self._connection.unary("Artifacts/List", request, v1.ListArtifactsResponse)

    async def get(self, artifact_id: str, *, run_id: str = "") -> v1.ArtifactSummary:
        """With `run_id` only when it is of this run."""
        request = v1.GetArtifactRequest(artifact_id=artifact_id, run_id=run_id)
        return await self._connection.unary("Artifacts/Get", request, v1.ArtifactSummary)

    def download(
        self, artifact_id: str, *, offset: int = 0, length: int | None = None, run_id: str = ""
    ) -> AsyncIterator[v1.ArtifactChunk]:
        """Its bytes from `offset` on, at most `length` of them."""
        request = v1.DownloadArtifactRequest(
            artifact_id=artifact_id, offset=offset, length=length, run_id=run_id
        )
        return self._connection.stream("Artifacts/Download", request, v1.ArtifactChunk)


class Tools:
    """The tools that a session's agent has."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(
        self, session_id: str, *, page_size: int = 0, page_token: str = ""
    ) -> v1.ListToolsResponse:
        request = v1.ListToolsRequest(
            session_id=session_id, page_size=page_size, page_token=page_token
        )
        return await self._connection.unary("Tools/List", request, v1.ListToolsResponse)

    async def invoke(
        self, session_id: str, name: str, input_json: bytes, *, idempotency_key: str = ""
    ) -> v1.InvokeToolResponse:
        request = v1.InvokeToolRequest(
            session_id=session_id,
            name=name,
            input_json=input_json,
            idempotency_key=idempotency_key,
        )
        return await self._connection.unary("Tools/Invoke", request, v1.InvokeToolResponse)


class Environments:
    """Where agents run."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(
        self, *, page_size: int = 0, page_token: str = ""
    ) -> v1.ListEnvironmentsResponse:
        request = v1.ListEnvironmentsRequest(page_size=page_size, page_token=page_token)
        return await self._connection.unary(
            "Environments/List", request, v1.ListEnvironmentsResponse
        )

    async def status(self, name: str) -> v1.Environment:
        request = v1.EnvironmentStatusRequest(name=name)
        return await self._connection.unary("Environments/Status", request, v1.Environment)

    async def create(self, name: str, config_json: bytes = b"{}") -> v1.Environment:
        request = v1.CreateEnvironmentRequest(name=name, config_json=config_json)
        return await self._connection.unary("Environments/Create", request, v1.Environment)

    async def delete(self, name: str) -> v1.DeleteEnvironmentResponse:
        request = v1.DeleteEnvironmentRequest(name=name)
        return await self._connection.unary(
            "Environments/Delete", request, v1.DeleteEnvironmentResponse
        )


class Stats:
    """What was used."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def get(
        self, *, session_id: str = "", entry_id: str = "", since: int | None = None
    ) -> v1.GetStatsResponse:
        """`since` is Unix ms."""
        request = v1.GetStatsRequest(session_id=session_id, entry_id=entry_id, since=since)
        return await self._connection.unary("Stats/Get", request, v1.GetStatsResponse)


class Tasks:
    """Background tasks; no daemon serves them yet."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(
        self, *, session_id: str = "", page_size: int = 0, page_token: str = ""
    ) -> v1.ListTasksResponse:
        request = v1.ListTasksRequest(
            session_id=session_id, page_size=page_size, page_token=page_token
        )
        return await self._connection.unary("Tasks/List", request, v1.ListTasksResponse)

    async def get(self, task_id: str) -> v1.Task:
        return await self._connection.unary(
            "Tasks/Get", v1.GetTaskRequest(task_id=task_id), v1.Task
        )

    async def cancel(self, task_id: str) -> v1.Task:
        return await self._connection.unary(
            "Tasks/Cancel", v1.CancelTaskRequest(task_id=task_id), v1.Task
        )

    def events(self, task_id: str, *, after: str = "") -> AsyncIterator[v1.EventBatch]:
        request = v1.TaskEventsRequest(task_id=task_id, after=after)
        return self._connection.stream("Tasks/Events", request, v1.EventBatch)
