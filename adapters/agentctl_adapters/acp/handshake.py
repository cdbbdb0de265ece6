"""Owns how the two sides of ACP introduce themselves: what we offer and what an agent declares.

Pure, and tolerant: what is not declared is not offered, what is not known is left out.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentctl.core.adapter import Feature
from agentctl.core.parts import Choice
from agentctl_adapters.common.shapes import Json, as_object, as_objects, as_text, as_words

PROTOCOL_VERSION = 1
TERMINAL_LOGIN = "terminal"


@dataclass(frozen=True, slots=True)
class ClientCapabilities:
    """What we offer. Neither files nor terminals by default: no known agent loses by it."""

    read_text_file: bool = False
    write_text_file: bool = False
    terminal: bool = False
    elicitation_form: bool = True
    elicitation_url: bool = True

    @classmethod
    def from_config(cls, protocol_config: Mapping[str, Any]) -> "ClientCapabilities":
        """Reads `protocol_config.client_capabilities`, which has the shape of ACP's own object."""
        wanted = as_object(protocol_config.get("client_capabilities"))
        files = as_object(wanted.get("fs"))
        elicitation = wanted.get("elicitation", {"form": True, "url": True})
        asks = as_object(elicitation)
        return cls(
            read_text_file=files.get("readTextFile") is True,
            write_text_file=files.get("writeTextFile") is True,
            terminal=wanted.get("terminal") is True,
            elicitation_form=elicitation is True or asks.get("form", False) is not False,
            elicitation_url=elicitation is True or asks.get("url", False) is not False,
        )

    def to_json(self) -> Json:
        asks: Json = {}
        if self.elicitation_form:
            asks["form"] = {}
        if self.elicitation_url:
            asks["url"] = {}
        offer: Json = {
            "fs": {"readTextFile": self.read_text_file, "writeTextFile": self.write_text_file},
            "terminal": self.terminal,
            "session": {"configOptions": {"boolean": {}}},
        }
        if asks:
            offer["elicitation"] = asks
        return offer


def initialize(client_version: str, offer: ClientCapabilities) -> Json:
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "clientInfo": {"name": "agentctl", "title": "agentctl", "version": client_version or "0"},
        "clientCapabilities": offer.to_json(),
    }


@dataclass(frozen=True, slots=True)
class AuthMethod:
    """`run`: the agent wants this command typed in a terminal; it is never sent through ACP."""

    id: str
    name: str
    description: str = ""
    run: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Handshake:
    """The answer to initialize, read tolerantly: what is not declared is not offered."""

    protocol_version: object = None
    name: str = ""
    version: str = ""
    features: frozenset[str] = frozenset()
    resumes: bool = False
    loads: bool = False
    auth_methods: tuple[AuthMethod, ...] = ()

    @property
    def choices(self) -> tuple[Choice, ...]:
        return tuple(
            Choice(method.id, method.name or None, method.description or None)
            for method in self.auth_methods
        )


def read_handshake(result: object, argv: Sequence[str] = ()) -> Handshake:
    """Args: result: of `initialize`; argv: of the agent, which a terminal login runs again."""
    answer = as_object(result)
    can = as_object(answer.get("agentCapabilities"))
    sessions = as_object(can.get("sessionCapabilities"))
    # `info` is where version 2 has it: the refusal of such an agent names its version, too.
    info = as_object(answer.get("agentInfo") or answer.get("info"))
    offers = {
        word for word in sessions if sessions[word] is not None and sessions[word] is not False
    }
    loads = can.get("loadSession") is True
    features = {Feature.MANY_SESSIONS}
    if loads or "resume" in offers:
        features.add(Feature.RESUME)
    for word, feature in _SESSION_FEATURES.items():
        if word in offers:
            features.add(feature)
    for group, word, feature in _NESTED_FEATURES:
        if as_object(can.get(group)).get(word) is True:
            features.add(feature)
    return Handshake(
        protocol_version=answer.get("protocolVersion"),
        name=as_text(info.get("title")) or as_text(info.get("name")),
        version=as_text(info.get("version")),
        features=frozenset(features),
        resumes="resume" in offers,
        loads=loads,
        auth_methods=tuple(_auth_methods(answer.get("authMethods"), argv)),
    )


_SESSION_FEATURES = {
    "fork": Feature.FORK,
    "list": Feature.LIST,
    "close": Feature.CLOSE,
    "delete": Feature.DELETE,
    "additionalDirectories": Feature.ADDITIONAL_DIRECTORIES,
}
_NESTED_FEATURES = (
    ("promptCapabilities", "image", Feature.IMAGE),
    ("promptCapabilities", "audio", Feature.AUDIO),
    ("promptCapabilities", "embeddedContext", Feature.EMBEDDED_CONTEXT),
    ("mcpCapabilities", "http", Feature.MCP_HTTP),
    ("mcpCapabilities", "sse", Feature.MCP_SSE),
)


def _auth_methods(methods: object, argv: Sequence[str]) -> Iterator[AuthMethod]:
    for method in as_objects(methods):
        meta = as_object(method.get("_meta"))
        own = as_object(meta.get("terminal-auth"))
        run: tuple[str, ...] = ()
        if own:
            run = (as_text(own.get("command")), *as_words(own.get("args")))
        elif method.get("type") == TERMINAL_LOGIN:
            run = (*argv[:1], *as_words(method.get("args")))
        elif meta.get("type") == TERMINAL_LOGIN:
            run = (*argv[:1], *as_words(meta.get("args")))
        if isinstance(identity := method.get("id"), str):
            name, description = as_text(method.get("name")), as_text(method.get("description"))
            yield AuthMethod(identity, name, description, run)
