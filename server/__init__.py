"""The signalling Server: a sans-IO rooms core and the shells that carry it."""
