"""From the set as it should be to servers as they are: each in its own lane, under the start gate."""
