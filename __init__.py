"""smcp-runtime: an actor-model runtime for A2C-SMCP on a message bus."""
