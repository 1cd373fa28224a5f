"""The `smcp` command: parses, calls, prints."""
