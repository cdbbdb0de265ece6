"""Owns how prompts, aborts and answers reach a session: in its lane, in order, each wait bounded.

An abort may arrive before the server has begun what it is to stop, and leaves requests listed: it is
repeated, and what it leaves is rejected. It refuses to know when a turn is over: the translator tells.
"""

import logging
from dataclasses import replace

import anyio

from agentctl.core.errors import AgentctlError
from agentctl_adapters.opencode import bodies
from agentctl_adapters.opencode.bodies import Body, Order
from agentctl_adapters.opencode.client import Answer, Call
from agentctl_adapters.opencode.errors import said
from agentctl_adapters.opencode.host import Host, Open

logger = logging.getLogger(__name__)

# An instance with plugins was seen to hold its first request for 70 s.
ACCEPT_S = 130.0
# An accepted prompt is told in milliseconds; what follows in the lane (a cancel) waits no longer.
ACCEPT_PATIENCE_S = 3.0
# A sync call shows its user message at once; a cancel behind it must not come before that.
BEGIN_S = 2.0
# Aborting took 65 to 330 ms: by the first pause it mostly is over, else it came too early.
ABORT_PAUSES_S = (0.8, 0.4, 0.8, 1.0)
# The process is ended next if it does not even take this.
ABORT_TIMEOUT_S = 3.0
ANSWER_TIMEOUT_S = 10.0


class Turning:
    """What is sent into the sessions of one server."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def prompt(self, session: Open, order: Order) -> None:
        """Has it sent; the translator says when it was taken and when it is over."""
        if self._host.sync_only and order.route == "prompt_async":
            order = replace(order, route="message", sync=True)
        session.lane.put(lambda: self._prompt(session, order))

    def abort(self, session: Open) -> None:
        session.aborts += 1
        session.lane.put(lambda: self._abort(session))

    def answer(self, session: Open, request: str, asked_in: str, body: Body) -> None:
        """Answers a permission request of the session or of a child of it."""
        session.lane.put(lambda: self._answer(request, asked_in, body))

    def answer_question(
        self, session: Open, request: str, asked_in: str, body: Body | None
    ) -> None:
        """Answers a question; without a body it is rejected."""
        session.lane.put(lambda: self._answer_question(request, asked_in, body))

    async def _prompt(self, session: Open, order: Order) -> None:
        host = self._host
        path = f"/session/{session.native}/{order.route}"
        call = host.api.open("POST", path, directory=session.directory, body=order.body)
        done = anyio.Event()
        host.group.start_soon(self._follow, session, order, call, done)
        if order.sync:
            view = host.translator.book.view(session.native)
            await host.link.until(lambda: done.is_set() or view.busy, BEGIN_S)
        else:
            with anyio.move_on_after(ACCEPT_PATIENCE_S):
                await done.wait()

    async def _follow(self, session: Open, order: Order, call: Call, done: anyio.Event) -> None:
        """Waits for the server's answer to a prompt, beside the lane."""
        host, aborts = self._host, session.aborts
        try:
            answer = await host.api.send(call, None if order.sync else ACCEPT_S)
            done.set()
            if answer.ok and not order.sync and session.aborts > aborts:
                self.abort(session)
            if order.sync and not host.streams.live:
                await host.refetch.session(session.native)
        except AgentctlError as error:
            logger.info("a prompt of %s got no answer: %s", session.native, error)
        except Exception:
            # The edge of a task for one prompt: its defect must not end the whole server.
            logger.exception("a prompt of %s failed", session.native)
        finally:
            done.set()

    async def _abort(self, session: Open) -> None:
        host, native = self._host, session.native
        for pause_s in ABORT_PAUSES_S:
            await host.api.call("POST", f"/session/{native}/abort", timeout_s=ABORT_TIMEOUT_S)
            await self._reject_left(session)
            if await host.link.until(lambda: not host.runs(native), pause_s):
                await self._reject_left(session)
                return
        await host.refetch.session(native)

    async def _reject_left(self, session: Open) -> None:
        """The server goes on listing what an aborted turn asked."""
        for request, is_question in self._host.translator.asks.unanswered(session.native):
            asked_in = self._host.roster.asked.get(request, session.native)
            if is_question:
                await self._answer_question(request, asked_in, None)
            else:
                await self._answer(request, asked_in, {"reply": bodies.REJECT})

    async def _answer(self, request: str, asked_in: str, body: Body) -> None:
        host = self._host
        answer = await self._post(f"/permission/{request}/reply", asked_in, body)
        if answer.absent and not _names_request(answer):
            path = f"/session/{asked_in}/permissions/{request}"
            await self._post(path, asked_in, bodies.legacy_reply(body))
        elif not answer.ok:
            logger.info("%s: %s was not taken: %s", host.launch.entry.id, request, answer.status)

    async def _answer_question(self, request: str, asked_in: str, body: Body | None) -> None:
        verb = "reject" if body is None else "reply"
        answer = await self._post(f"/question/{request}/{verb}", asked_in, body or {})
        if not answer.ok:
            entry = self._host.launch.entry.id
            logger.info("%s: %s was not taken: %s", entry, request, answer.status)

    async def _post(self, path: str, asked_in: str, body: Body) -> Answer:
        directory = self._host.roster.directory_of(asked_in)
        return await self._host.api.call(
            "POST", path, directory=directory, body=body, timeout_s=ANSWER_TIMEOUT_S
        )


def _names_request(answer: Answer) -> bool:
    """Whether a 404 speaks of the request (it is gone) and not of the route."""
    return (
        answer.status == 404
        and not answer.page
        and "NotFound" in repr(answer.body) + said(answer.body)
    )
