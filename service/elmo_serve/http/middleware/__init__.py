"""Middleware as plain ASGI: request context, errors, keys and limits."""
