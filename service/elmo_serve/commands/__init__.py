"""What the command line offers: one command a file."""
