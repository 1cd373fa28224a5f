"""All of a session that needs the MCP library (F-52), which takes longer to import than everything else together.

Nothing imports this package when it is imported itself: `loading` does, with the first session.
"""
