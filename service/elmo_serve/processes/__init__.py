"""Child processes: spawned, watched, replaced; messages and shared memory. Knows no HTTP."""
