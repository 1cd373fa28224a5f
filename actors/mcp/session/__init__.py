"""One negotiated session: its lists, its subscriptions, and the eras of the protocol."""
