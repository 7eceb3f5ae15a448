"""A first visit to a machine with a GPU."""
