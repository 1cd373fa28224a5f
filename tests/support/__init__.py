"""Helpers of the tests that are no fixtures: peers in processes of their own, and the environments they run in."""
