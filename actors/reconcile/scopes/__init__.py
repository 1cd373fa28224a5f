"""Scopes: the layers of declarations and settings, whom each may speak for, and what they come to together (03 §3)."""
