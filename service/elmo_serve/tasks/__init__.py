"""Tasks of a server: their folder, read and written in a thread, its files and their schema."""
