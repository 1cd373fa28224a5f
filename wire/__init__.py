"""What crosses a boundary: typed messages and pure rules. No I/O, and nothing of ours is imported here."""
