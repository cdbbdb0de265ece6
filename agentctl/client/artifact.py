"""Owns an artifact as an app sees it: what it is, and its bytes: whole, in parts, or into a file."""

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from agentctl.client.results import ArtifactSummary, artifact_summary

if TYPE_CHECKING:
    from agentctl.client.api import AgentCtl

PAGE = 1000


class Artifact:
    """Something that a run made; the fields of its summary are its own too."""

    __slots__ = ("_client", "summary")

    def __init__(self, client: "AgentCtl", summary: ArtifactSummary) -> None:
        self._client = client
        self.summary = summary

    @property
    def id(self) -> str:
        return self.summary.id

    @property
    def type(self) -> str:
        """file, patch, diff, log, media, screenshot, trajectory, pull_request or workspace."""
        return self.summary.type

    @property
    def title(self) -> str | None:
        return self.summary.title

    @property
    def mime_type(self) -> str | None:
        return self.summary.mime_type

    @property
    def size_bytes(self) -> int | None:
        return self.summary.size_bytes

    @property
    def path(self) -> str | None:
        """The file it is of, as the agent named it."""
        return self.summary.path

    @property
    def url(self) -> str | None:
        """Where it is, when it lives elsewhere: such a one has no bytes here."""
        return self.summary.url

    @property
    def run_id(self) -> str | None:
        return self.summary.run_id

    async def stream(self, *, offset: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        """Its bytes in pieces, from `offset` on, at most `length` of them.

        Raises:
            AgentctlError: ARTIFACT_NOT_FOUND (also when its bytes are gone), INVALID_PARAMETERS (an
                offset past its end), UNSUPPORTED (it has a url only).
        """
        chunks: Any = self._client.artifacts.download(self.id, offset=offset, length=length)
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk.data

    async def read(self, *, offset: int = 0, length: int | None = None) -> bytes:
        """The same at once."""
        return b"".join([piece async for piece in self.stream(offset=offset, length=length)])

    async def download(
        self, target: str | Path, *, offset: int = 0, length: int | None = None
    ) -> Path:
        """The same into a file, which is there only when it is whole; returns its path."""
        path = anyio.Path(target)
        part = path.with_name(f"{path.name}.part")
        try:
            async with await part.open("wb") as file:
                async for piece in self.stream(offset=offset, length=length):
                    await file.write(piece)
            await part.replace(path)
        finally:
            with anyio.CancelScope(shield=True):
                await part.unlink(missing_ok=True)
        return Path(path)

    def __repr__(self) -> str:
        return f"Artifact({self.id!r}, {self.type!r}, {self.title or self.path!r})"


class ArtifactsOf:
    """The artifacts of one run or one session."""

    __slots__ = ("_client", "_run_id", "_session_id")

    def __init__(self, client: "AgentCtl", *, session_id: str = "", run_id: str = "") -> None:
        self._client = client
        self._session_id, self._run_id = session_id, run_id

    async def list(self, kinds: Sequence[str] = ()) -> list[Artifact]:
        """All of them, the newest first; with `kinds` only those of these types."""
        found: list[Artifact] = []
        token = ""
        while True:
            page = await self._client.artifacts.list(
                session_id=self._session_id,
                run_id=self._run_id,
                kinds=kinds,
                page_size=PAGE,
                page_token=token,
            )
            found += [Artifact(self._client, artifact_summary(each)) for each in page.artifacts]
            token = page.next_page_token
            if not token:
                return found

    async def get(self, artifact_id: str) -> Artifact:
        """One of them; ARTIFACT_NOT_FOUND when it is of another run."""
        told = await self._client.artifacts.get(artifact_id, run_id=self._run_id)
        return Artifact(self._client, artifact_summary(told))
