"""Owns the Agents service."""

from agentctl import v1
from agentctl.core.errors import Invalid
from agentctl.rpc.calls import Calls, Context
from agentctl.rpc.records import agent_message, choice_message
from agentctl.rpc.requests import need, page_of, page_token
from agentctl.session.api import AgentsApi


class AgentsService:
    """Running processes of agents."""

    def __init__(self, manager: AgentsApi, calls: Calls) -> None:
        self._manager = manager
        self._calls = calls

    async def start(self, request: v1.StartAgentRequest, context: Context) -> v1.Agent:
        entry_id = need(request.entry_id, "entry_id")
        call = self._manager.start_agent(entry_id, workspace=request.workspace)
        return agent_message(await self._calls.change(call))

    async def stop(self, request: v1.StopAgentRequest, context: Context) -> v1.StopAgentResponse:
        if request.all == bool(request.agent_id):
            raise Invalid("give exactly one of agent_id and all.", metadata={"field": "agent_id"})
        if request.all:
            records = await self._calls.change(self._manager.stop_all(force=request.force))
        else:
            call = self._manager.stop_agent(request.agent_id, force=request.force)
            records = [await self._calls.change(call)]
        return v1.StopAgentResponse(agents=[agent_message(record) for record in records])

    async def restart(self, request: v1.RestartAgentRequest, context: Context) -> v1.Agent:
        call = self._manager.restart_agent(need(request.agent_id, "agent_id"))
        return agent_message(await self._calls.change(call))

    async def get(self, request: v1.GetAgentRequest, context: Context) -> v1.Agent:
        return agent_message(await self._manager.get_agent(need(request.agent_id, "agent_id")))

    async def list(self, request: v1.ListAgentsRequest, context: Context) -> v1.ListAgentsResponse:
        records = await self._manager.list_agents(include_exited=request.include_exited)
        after = page_token(request, "agt")
        newest = sorted(records, key=lambda record: record.id, reverse=True)
        rest = [each for each in newest if not after or each.id < after]
        page, token = page_of(rest, lambda each: each.id, request.page_size, "")
        return v1.ListAgentsResponse(
            agents=[agent_message(record) for record in page], next_page_token=token
        )

    async def auth_methods(
        self, request: v1.AuthMethodsRequest, context: Context
    ) -> v1.AuthMethodsResponse:
        methods = await self._calls.change(self._manager.auth_methods(need(request.agent, "agent")))
        return v1.AuthMethodsResponse(methods=[choice_message(each) for each in methods])

    async def authenticate(
        self, request: v1.AuthenticateRequest, context: Context
    ) -> v1.AuthenticateResponse:
        agent, method = need(request.agent, "agent"), need(request.method, "method")
        await self._calls.change(self._manager.authenticate(agent, method))
        return v1.AuthenticateResponse()
