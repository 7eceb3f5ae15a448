"""What packages share to write, map and lock files, and to ask the system for its limits."""
