"""How messages reach a server: processes and their pipes, HTTP in both forms, and what they share."""
