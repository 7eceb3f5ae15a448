"""FASTA: a header line that begins with `>`, then the lines of a sequence."""

from collections.abc import Iterable, Iterator

from elmo_model.errors import ElmoError, shown


class FastaError(ElmoError):
    """A line that is not FASTA; the message has its number, counted from 1."""


def read(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the header of each record, without its `>`, and the sequence, without white space.

    Reads one line ahead, the header of the next record. Raises FastaError for text before
    the first header, and for a header with a carriage return inside: old Macintosh files end their
    lines with these alone, and the sequence would be read as a part of the header.
    """
    header: str | None = None
    parts: list[str] = []
    for number, line in enumerate(lines, 1):
        if line.startswith(">"):
            if header is not None:
                yield header, "".join(parts)
            header, parts = line[1:].strip(), []
            if "\r" in header:
                raise FastaError(f"line {number} has \\r inside; lines end with \\n or \\r\\n")
        elif text := "".join(line.split()):
            if header is None:
                raise FastaError(
                    f"line {number} is {shown(line.strip())}, expected a header, as in >P12345"
                )
            parts.append(text)
    if header is not None:
        yield header, "".join(parts)
