"""The client of an agent's own MCP servers, a child process of its session."""
