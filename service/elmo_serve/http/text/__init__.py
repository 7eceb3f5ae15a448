"""Requests with text: their bodies, their tokens, and the way to their vectors."""
