"""Actors of a Computer, one folder each: a thin actor over pure modules."""
