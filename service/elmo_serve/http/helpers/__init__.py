"""Helper processes: they do the work of requests that would block the event loop."""
