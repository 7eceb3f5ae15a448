"""Middleware as plain ASGI: the context of a request, its checks, and its errors."""
