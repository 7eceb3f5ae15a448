"""The indexes of uses that a server searches: one of a user, or that of the program's text."""
