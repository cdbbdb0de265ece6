"""Owns a conversation as the server keeps it, read back as whole messages and tools. Pure.

Nothing here is new to anybody: these payloads are an answer and never enter the stream of events.
"""

from collections.abc import Iterator

from agentctl.core.adapter import Draft
from agentctl.core.events import Message as Whole
from agentctl.core.events import Payload, Reasoning, ToolCall, ToolUpdate
from agentctl.core.parts import ContentBlock
from agentctl.core.words import Role
from agentctl_adapters.opencode.prompts import block_of_file, text_block
from agentctl_adapters.opencode.shapes import Json, as_object, as_objects, as_text
from agentctl_adapters.opencode.tools import Tools
from agentctl_adapters.opencode.view import Book, Message


def payloads(session: str, rows: object) -> list[Payload]:
    """The rows of GET /session/{id}/message."""
    book = Book()
    view = book.view(session)
    tools = Tools(book)
    told: list[Payload] = []
    for row in as_objects(rows):
        info = as_object(row.get("info"))
        message = Message(as_text(info.get("id")), view, as_text(info.get("role")))
        if message.role == "user":
            told += _user(message, as_objects(row.get("parts")))
        else:
            told += _answer(message, as_objects(row.get("parts")), tools)
    return told


def _user(message: Message, parts: list[Json]) -> Iterator[Payload]:
    blocks: list[ContentBlock] = []
    for part in parts:
        if part.get("type") == "text" and part.get("synthetic") is not True:
            blocks.append(text_block(as_text(part.get("text"))))
        elif part.get("type") == "file":
            blocks.append(block_of_file(part))
    if blocks:
        yield Whole(message.id, Role.USER, blocks)


def _answer(message: Message, parts: list[Json], tools: Tools) -> Iterator[Payload]:
    for part in parts:
        match part.get("type"):
            case "text" if as_text(part.get("text")):
                block = text_block(as_text(part.get("text")))
                yield Whole(_block_id(message), Role.ASSISTANT, [block])
            case "reasoning" if as_text(part.get("text")):
                yield Reasoning(_block_id(message), as_text(part.get("text")), whole=True)
            case "tool":
                for draft in tools.part(message.view, message, part, None):
                    if isinstance(draft, Draft) and isinstance(
                        draft.payload, ToolCall | ToolUpdate
                    ):
                        yield draft.payload
            case _:
                continue


def _block_id(message: Message) -> str:
    """The id under which the live event had it."""
    own = f"{message.id}/{message.blocks}" if message.blocks else message.id
    message.blocks += 1
    return own
