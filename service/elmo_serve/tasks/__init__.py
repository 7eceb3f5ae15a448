"""Tasks of a server: the registry, its files, their folder, lock and schema."""
