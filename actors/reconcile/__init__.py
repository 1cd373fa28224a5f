"""The reconcile actor: what should run, what an Agent may see of it, and the commits between the two."""
