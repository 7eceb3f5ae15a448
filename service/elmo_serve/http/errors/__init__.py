"""Errors as responses: problem documents, and the error bodies of other APIs."""
