"""The error of a failed download."""

from __future__ import annotations


class DownloadError(Exception):
    """A published model cannot be had. The message is one line: file or URL, found, expected."""
