"""Tools as they were when they were pinned, and what becomes of those that are not so any more (F-117)."""
