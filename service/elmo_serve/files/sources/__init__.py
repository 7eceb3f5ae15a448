"""The places where the vectors of a file are computed, one module each."""
