"""Owns the commands on questions of agents: questions, answer, reject."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentctl.cli import completion, options
from agentctl.cli.state import go

if TYPE_CHECKING:
    from agentctl import v1
    from agentctl.client import AgentCtl

Id = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="The question, or the end of its id.",
        autocompletion=completion.questions,
    ),
]


def questions(
    session: Annotated[
        str | None,
        typer.Option(metavar="S", help="Of a session.", autocompletion=completion.sessions),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Answered ones too.")] = False,
    as_json: options.Json = False,
) -> None:
    """Lists the questions that wait for an answer.

    \b
    Examples:
      agentctl questions
      agentctl questions --session 9c4f --json
    """

    async def work(client: "AgentCtl") -> None:
        from agentctl.cli.ids import resolve
        from agentctl.cli.out import out, print_message
        from agentctl.cli.pages import pages

        where = await resolve(client, "session", session) if session else ""
        found: list[v1.QuestionRecord] = []
        async for page in pages(
            lambda token: client.questions.list(
                session_id=where, include_resolved=everything, page_token=token
            )
        ):
            found += page.questions
        if as_json:
            for each in found:
                print_message(each)
        elif not found:
            out().line("nothing waits for an answer")
        else:
            for each in found:
                _print(each)

    go(work)


def _print(found: "v1.QuestionRecord") -> None:
    from agentctl.cli.cards import question_card
    from agentctl.cli.out import age, out
    from agentctl.cli.screen import Screen
    from agentctl.rpc.jsonview import to_dict

    data = to_dict(found)
    state = data.get("outcome", "open")
    out().line(f"{found.question_id}  {state}  {age(found.created_at)}")
    for line in list(question_card(data["request"], Screen(out())))[:-1]:
        out().line(line)
    if state == "open":
        out().line(out().text(f"  agentctl answer {found.question_id} …", "dim"))


def answer(
    question_id: Id,
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="ANSWER…", help="One for each question: text, or an option."),
    ] = None,
    content: Annotated[
        str | None, typer.Option(metavar="JSON", help="The filled-in schema.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Answers a question: with text, with an option by number or name, or with JSON.

    \b
    Examples:
      agentctl answer 9c4f "use port 8080"
      agentctl answer 9c4f --content '{"port": 8080}'
    """
    from agentctl.cli.errors import usage

    if not texts and content is None:
        usage("Say the answer, or give --content JSON: agentctl questions shows what is asked.")

    async def work(client: "AgentCtl") -> None:
        from agentctl.cli.asks import content as filled
        from agentctl.cli.asks import values
        from agentctl.cli.ids import resolve
        from agentctl.cli.out import out, print_message
        from agentctl.rpc.jsonview import to_dict

        identifier = await resolve(client, "question", question_id)
        listed = (await client.questions.list()).questions
        record = next((each for each in listed if each.question_id == identifier), None)
        request = to_dict(record.request) if record is not None else {}
        asked = request.get("questions", [])
        if content is None and not asked and "schema" in request:
            found = await client.questions.answer(
                identifier, content_json=filled(request, " ".join(texts or []))
            )
        elif content is not None:
            found = await client.questions.answer(identifier, content_json=content.encode())
        else:
            given = [
                values(asked[at], text) if at < len(asked) else [text]
                for at, text in enumerate(texts or [])
            ]
            found = await client.questions.answer(identifier, given)
        if as_json:
            print_message(found)
        else:
            out().line("answered")

    go(work)


def reject(question_id: Id, reason: options.Reason = None, as_json: options.Json = False) -> None:
    """Declines to answer a question.

    \b
    Examples:
      agentctl reject 9c4f
      agentctl reject 9c4f --reason "ask me tomorrow"
    """

    async def work(client: "AgentCtl") -> None:
        from agentctl.cli.ids import resolve
        from agentctl.cli.out import out, print_message

        identifier = await resolve(client, "question", question_id)
        found = await client.questions.reject(identifier, reason=reason)
        if as_json:
            print_message(found)
        else:
            out().line("declined")

    go(work)


COMMANDS: Sequence[Any] = (questions, answer, reject)
