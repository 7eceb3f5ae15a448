"""What makes inference fast and is never trained: caches, packed weights, threads."""
