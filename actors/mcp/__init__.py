"""One hosted MCP server: its process or connection, its session, its supervision."""
