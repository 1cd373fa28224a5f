"""Authorization at HTTP servers: what was granted, how it is used and renewed, how a person grants it (R-MCP-25)."""
