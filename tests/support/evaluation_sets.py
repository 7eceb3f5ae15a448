"""Tiny test sets for `elmo evaluate`, written to files."""

from pathlib import Path


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def uses(path: Path, *rows: tuple[str, str, int, str]) -> Path:
    """Write a table of word senses: word, sense, place of the word, sentence."""
    lines = ["word\tsense\ttoken_index\tsentence", *("\t".join(map(str, row)) for row in rows)]
    return written(path, "\n".join(lines) + "\n")


def pairs(path: Path, *rows: tuple[str, int, int, str, str]) -> Path:
    """Write a table of words in context: label, two places, two sentences."""
    lines = ["word\tlabel\tindex1\tindex2\tsentence1\tsentence2"]
    lines += ["w\t" + "\t".join(map(str, row)) for row in rows]
    return written(path, "\n".join(lines) + "\n")
