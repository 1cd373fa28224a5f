"""Approval: which declared servers may run, what is asked about the others, and where the answer is kept (03 §8)."""
