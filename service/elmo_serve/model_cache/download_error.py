"""What is said when a published model cannot be had."""

from __future__ import annotations


class DownloadError(Exception):
    """A published model cannot be had. Its text is one line: what, found and expected."""
