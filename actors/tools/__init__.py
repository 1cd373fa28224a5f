"""The tool actor: one list of tools out of many servers, and the calls that go through it."""
