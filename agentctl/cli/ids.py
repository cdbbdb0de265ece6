"""Owns ids at the command line: shortened for people, completed from a unique end.

It refuses to invent one: what it cannot find goes to the daemon as it is, whose error names it.
"""

from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING

from agentctl.core.errors import Invalid

if TYPE_CHECKING:
    from agentctl.client import AgentCtl

PREFIXES = {
    "agt": "agent",
    "ses": "session",
    "run": "run",
    "apr": "approval",
    "qst": "question",
    "art": "artifact",
}
FULL = 26
"""Characters of an id after its prefix."""

# A tail of fewer characters is a slip more often than a name.
SHORTEST = 2

# An id that old is looked up by typing more of it: a listing must not page through years.
MAX_PAGES = 20
PAGE = 500


def short(identifier: str, others: Iterable[str] = ()) -> str:
    """`ses_01k…9c4f`: enough of its end to be told from the others."""
    prefix, underscore, body = identifier.partition("_")
    if not underscore or len(body) < 12:
        return identifier
    count = 4
    rivals = [each for each in others if each != identifier]
    while count < len(body) and any(each.endswith(body[-count:]) for each in rivals):
        count += 1
    return f"{prefix}_{body[:3]}…{body[-count:]}"


def is_full(text: str) -> bool:
    prefix, underscore, body = text.partition("_")
    return bool(underscore) and prefix in PREFIXES and len(body) >= FULL


def matches(identifier: str, text: str) -> bool:
    """Whether a text as a person types or copies it means this id."""
    head, dots, tail = text.replace("...", "…").partition("…")
    if dots:
        return identifier.startswith(head) and identifier.endswith(tail)
    prefix, underscore, body = text.partition("_")
    if underscore and prefix in PREFIXES:
        return identifier.startswith(prefix) and identifier.endswith(body)
    return identifier.endswith(text)


async def resolve(client: "AgentCtl", kind: str, text: str) -> str:
    """The whole id that a text means; the text itself when nothing matches.

    Args:
        kind: agent, session, run, approval, question or artifact.

    Raises:
        Invalid: several match, or the text is too short to mean one.
    """
    text = text.strip()
    if is_full(text):
        return text
    if len(text) < SHORTEST:
        raise Invalid(f'"{text}" is too short to name a {kind}: type more of the end of its id.')
    found = [each async for each in every(client, kind) if matches(each, text)]
    if len(found) > 1:
        names = ", ".join(short(each, found) for each in found[:4])
        raise Invalid(f'"{text}" means {len(found)} {kind}s ({names}): type more of the id.')
    return found[0] if found else text


async def resolve_any(client: "AgentCtl", text: str, kinds: Iterable[str]) -> tuple[str, str]:
    """(kind, id) of the one thing of these kinds that a text means.

    Raises:
        Invalid: several match.
    """
    wanted = tuple(kinds)
    prefix = PREFIXES.get(text.partition("_")[0], "")
    if prefix in wanted:
        return prefix, await resolve(client, prefix, text)
    found: list[tuple[str, str]] = []
    for kind in wanted:
        identifier = await resolve(client, kind, text)
        if is_full(identifier):
            found.append((kind, identifier))
    if len(found) > 1:
        names = " or ".join(f"{kind} {short(each)}" for kind, each in found)
        raise Invalid(f'"{text}" may mean {names}: type more of the id.')
    return found[0] if found else (wanted[-1], text)


async def every(client: "AgentCtl", kind: str) -> AsyncIterator[str]:
    """Ids of a kind, newest first, within bounds."""
    token = ""
    for _ in range(MAX_PAGES):
        names, token = await _page(client, kind, token)
        for name in names:
            yield name
        if not token:
            return


async def _page(client: "AgentCtl", kind: str, token: str) -> tuple[list[str], str]:
    match kind:
        case "agent":
            agents = await client.agents.list(include_exited=True, page_size=PAGE, page_token=token)
            return [each.agent_id for each in agents.agents], agents.next_page_token
        case "session":
            sessions = await client.sessions.list(page_size=PAGE, page_token=token)
            return [each.session_id for each in sessions.sessions], sessions.next_page_token
        case "run":
            runs = await client.runs.list(page_size=PAGE, page_token=token)
            return [each.run_id for each in runs.runs], runs.next_page_token
        case "artifact":
            made = await client.artifacts.list(page_size=PAGE, page_token=token)
            return [each.artifact_id for each in made.artifacts], made.next_page_token
        case "approval":
            asked = await client.approvals.list(
                include_resolved=True, page_size=PAGE, page_token=token
            )
            return [each.approval_id for each in asked.approvals], asked.next_page_token
        case _:
            questions = await client.questions.list(
                include_resolved=True, page_size=PAGE, page_token=token
            )
            return [each.question_id for each in questions.questions], questions.next_page_token
