"""Owns the form of our records in the journal: one JSON document each; knows no SQL.

Whether a document is `open` decides what is loaded at start. Secrets never get this far: the
environment of a session stays out.
"""

import base64
import dataclasses
import json
from collections.abc import Sequence
from functools import cache
from typing import Any, TypeVar, cast

import anyio.lowlevel
import orjson
from pydantic import TypeAdapter

from agentctl.core.parts import Usage
from agentctl.core.spec import Rule
from agentctl.core.state import FINAL_RUN
from agentctl.core.words import Outcome, SessionState
from agentctl.journal.store import Doc
from agentctl.session.progress import phase_of
from agentctl.session.records import (
    ApprovalRecord,
    ArtifactRecord,
    QuestionRecord,
    RunRecord,
    SeenRecord,
    SeenTool,
    SessionRecord,
    TallyRecord,
    places,
)

Record = (
    SessionRecord
    | RunRecord
    | ApprovalRecord
    | QuestionRecord
    | ArtifactRecord
    | SeenRecord
    | TallyRecord
)
R = TypeVar(
    "R",
    SessionRecord,
    RunRecord,
    ApprovalRecord,
    QuestionRecord,
    ArtifactRecord,
    SeenRecord,
    TallyRecord,
    Rule,
)

_BYTES = "$bytes"
_MARK = _BYTES.encode()

OUTPUT_KEPT = 8192
"""Characters of a running command's output that survive a restart."""

TURN = 50
"""Documents that are read in one go: a millisecond or two, in which nobody else is served."""


@cache
def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _plain(value: Any) -> Any:
    if isinstance(value, set):
        return list(cast(set[str], value))
    if isinstance(value, bytes):
        return {_BYTES: base64.b64encode(value).decode()}
    raise TypeError(type(value).__name__)


def _revive(value: Any) -> Any:
    if isinstance(value, dict):
        found = cast(dict[str, Any], value)
        if len(found) == 1 and _BYTES in found:
            return base64.b64decode(found[_BYTES])
        return {key: _revive(item) for key, item in found.items()}
    if isinstance(value, list):
        return [_revive(item) for item in cast(list[Any], value)]
    return value


def load(kind: type[R], doc: Doc) -> R:
    """The record in a document that `doc_of` made, by this version or an older one."""
    body = doc.body or b"{}"
    told = orjson.loads(body)
    return cast(R, _adapter(kind).validate_python(_revive(told) if _MARK in body else told))


def load_tally(doc: Doc) -> TallyRecord:
    """As `load`; there is one of each run, so that its types are not looked at again."""
    told = orjson.loads(doc.body or b"{}")
    if told["usage"] is not None:
        told["usage"] = Usage(**told["usage"])
    if told["outcome"] is not None:
        told["outcome"] = Outcome(told["outcome"])
    return TallyRecord(**told)


async def load_many(kind: type[R], docs: Sequence[Doc]) -> list[R]:
    """The records of many documents; others get their turn meanwhile."""
    found: list[R] = []
    for start in range(0, len(docs), TURN):
        found += [load(kind, doc) for doc in docs[start : start + TURN]]
        await anyio.lowlevel.checkpoint()
    return found


def rule_doc(rule: Rule) -> Doc:
    """The journal document of a rule for all sessions."""
    return Doc("rule", rule.rule_id, orjson.dumps(rule))


def doc_of(record: Record) -> Doc:
    """The journal document of a record."""
    match record:
        case SessionRecord():
            bare = dataclasses.replace(
                record, spec=dataclasses.replace(record.spec, env={}, auth={})
            )
            is_open = record.state is not SessionState.CLOSED
            brief = "" if is_open else brief_of(record)
            return Doc("session", record.id, _dump(bare), record.id, is_open, brief=brief)
        case RunRecord():
            is_open = record.state not in FINAL_RUN
            return Doc("run", record.id, _dump(record), record.session_id, is_open)
        case ApprovalRecord():
            is_open = record.decision is None
            id_ = record.request.approval_id
            return Doc("approval", id_, _dump(record), record.session_id, is_open)
        case QuestionRecord():
            is_open = record.outcome is None
            id_ = record.request.question_id
            return Doc("question", id_, _dump(record), record.session_id, is_open)
        case SeenRecord():
            id_ = record.session_id
            tools = {key: _cut(tool) for key, tool in record.tools.items()}
            record = dataclasses.replace(record, tools=tools)
            return Doc("seen", id_, _dump(record), id_, record.open)
        case TallyRecord():
            is_open = record.outcome is None
            return Doc("tally", record.run_id, _dump(record), record.session_id, is_open)
        case ArtifactRecord():
            has_bytes = bool(record.sha256) and not record.deleted
            return Doc("artifact", record.id, _dump(record), record.session_id, has_bytes)


def _cut(tool: SeenTool) -> SeenTool:
    """Of what a command printed so far only as much as a summary at its end may need."""
    text = "".join(tool.output)
    kept = text[-OUTPUT_KEPT:]
    whole = tool.whole and len(kept) == len(text)
    return dataclasses.replace(tool, output=[kept], size=len(kept), whole=whole)


def brief_of(record: SessionRecord) -> str:
    """What a closed session is found by; open ones are in memory."""
    found = {
        "state": record.state,
        "phase": phase_of(record.state, record.last_outcome),
        "entry": record.spec.entry_id,
        "project": record.project,
        "key": record.key,
        "name": record.name,
        "native": record.native_session_id,
        "labels": [label(*each) for each in record.labels.items()],
        "places": places(record),
        "saved": "no" if record.state_saved is False else "yes",
    }
    return orjson.dumps(found).decode()


def label(name: str, value: str) -> str:
    """A label as briefs have it."""
    return f"{name}\x1f{value}"


def _dump(record: Record) -> bytes:
    try:
        return orjson.dumps(record, default=_plain)
    except TypeError:
        # An agent's id or text with half of a character in it, which orjson takes for no text.
        told = json.dumps(dataclasses.asdict(record), default=_plain, ensure_ascii=False)
        return told.encode("utf-8", "replace")
