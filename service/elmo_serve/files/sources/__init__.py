"""Where the vectors of a file come from: one place a file."""
