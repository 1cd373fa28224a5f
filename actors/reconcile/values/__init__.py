"""Values of inputs: where they are kept, and who is asked for one (03 §5.4, §5.6)."""
