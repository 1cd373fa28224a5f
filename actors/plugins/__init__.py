"""Marketplaces and plugins: bundles of skills, servers and inputs, fetched, kept and brought back (03 §7).

A component of the ReconcileActor and of the command line. Everything in it is pure or blocking, and nothing is an
actor: whoever calls what blocks does so in a thread.
"""
