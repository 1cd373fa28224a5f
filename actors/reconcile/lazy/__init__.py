"""Lazy servers: known by the tools they listed last, and started by the first call of one of these (F-68)."""
