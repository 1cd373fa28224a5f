"""Where servers run: in the process of the Computer, in one of their own, or at a worker somebody started."""
