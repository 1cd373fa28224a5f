"""What a configuration says, in any accepted form, and what is wrong with it. Pure."""
