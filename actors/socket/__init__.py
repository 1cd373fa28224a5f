"""The SocketActor: the Computer's Socket.IO connection, its office, and every answer an Agent gets."""
