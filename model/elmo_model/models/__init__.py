"""Models by name: those that come with the program, and published ones."""
