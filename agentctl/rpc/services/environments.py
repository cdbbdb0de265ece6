"""Owns the Environments service: where agents can run. Making one is a session's business."""

from agentctl import v1
from agentctl.rpc.calls import Context
from agentctl.rpc.requests import need, page_of
from agentctl.session.api import EnvironmentsApi
from agentctl.session.records import EnvironmentInfo


class EnvironmentsService:
    """The environments of this daemon."""

    def __init__(self, manager: EnvironmentsApi) -> None:
        self._manager = manager

    async def list(
        self, request: v1.ListEnvironmentsRequest, context: Context
    ) -> v1.ListEnvironmentsResponse:
        every = self._manager.list_environments()
        page, token = page_of(every, lambda each: each.name, request.page_size, request.page_token)
        return v1.ListEnvironmentsResponse(
            environments=[environment_message(each) for each in page], next_page_token=token
        )

    async def status(
        self, request: v1.EnvironmentStatusRequest, context: Context
    ) -> v1.Environment:
        return environment_message(self._manager.get_environment(need(request.name, "name")))


def environment_message(info: EnvironmentInfo) -> v1.Environment:
    return v1.Environment(
        name=info.name,
        available=info.available,
        detail=info.detail,
        capabilities=info.capabilities,
        sessions=info.sessions,
        options=info.options,
    )
