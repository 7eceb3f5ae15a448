"""Requests, responses and retries: what both clients share."""
