"""The projection: what each answering actor gets of the set, made and applied as a whole."""
