"""Agent clients, asynchronous and synchronous."""
