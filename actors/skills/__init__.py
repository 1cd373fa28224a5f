"""The skill channel: packages of instructions and files from the user, from plugins and from MCP servers.

Its modules are imported by name: those that only look at files must not bring the actor's HTTP client along.
"""
