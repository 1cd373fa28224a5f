"""How a server is watched, limited and tried again: tables and laws, pure, with time as an argument."""
