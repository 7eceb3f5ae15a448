"""Worker processes and threads, their supervision and their shared memory."""
