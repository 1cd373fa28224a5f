"""One Computer as a whole: its crew of actors, how its operations are conducted, and what is told of it."""
