"""Scores of the layers of a model on public evaluation sets."""
