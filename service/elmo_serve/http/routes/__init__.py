"""The HTTP routes, one file each."""
