"""Owns `agentctl acp`: any of our agents as one ACP agent over standard input and output.

Pure: `translate`, `tools`, `content`, `options`, `asks`, `params`, `errors`. I/O: `wire`, `session`,
`agent`. It speaks to the daemon as any client does and refuses to know an adapter.
"""

from agentctl.gateway.acp.agent import serve
from agentctl.gateway.acp.host import Choices

__all__ = ["Choices", "serve"]
