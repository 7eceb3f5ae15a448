"""Middleware as plain ASGI: request context, errors, size of the body, and checks of the head."""
