"""A server of tools, to be run as a process."""

try:
    from mcp.server import MCPServer
except ImportError:
    from mcp.server.fastmcp import FastMCP as MCPServer  # as it was called before version 2

server = MCPServer("shop", log_level="ERROR")


def price(item: str) -> str:
    """The price of an item."""
    return "3" if item == "tea" else "there is no such item"


def nothing() -> None:
    """Nothing at all."""


def stock() -> list[str]:
    """What there is."""
    return ["tea", "milk"]


for tool in (price, nothing, stock):
    server.tool()(tool)
server.run()
