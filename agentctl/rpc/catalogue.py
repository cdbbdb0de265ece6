"""Owns the list of the services of the API, as their descriptors."""

from functools import cache

from google.protobuf.descriptor import ServiceDescriptor

from agentctl.v1 import (
    agents_pb2,
    approvals_pb2,
    artifacts_pb2,
    daemon_pb2,
    environments_pb2,
    events_pb2,
    models_pb2,
    questions_pb2,
    registry_pb2,
    runs_pb2,
    sessions_pb2,
    stats_pb2,
    tasks_pb2,
    tools_pb2,
)

_FILES = (
    daemon_pb2,
    agents_pb2,
    sessions_pb2,
    runs_pb2,
    events_pb2,
    approvals_pb2,
    questions_pb2,
    artifacts_pb2,
    registry_pb2,
    models_pb2,
    tools_pb2,
    environments_pb2,
    stats_pb2,
    tasks_pb2,
)


@cache
def services() -> tuple[ServiceDescriptor, ...]:
    """Every service, in the order of the documentation."""
    return tuple(
        service for file in _FILES for service in file.DESCRIPTOR.services_by_name.values()
    )
