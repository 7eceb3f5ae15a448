"""FASTA: headers and sequences."""

from __future__ import annotations

import pytest

from elmo_model.text.fasta import FastaError, read


def test_a_sequence_is_joined_from_its_lines_without_white_space() -> None:
    lines = ["\n", ">sp|P1|X name  of it \r\n", "AC D\n", "\t\n", "ef\n", ">2\n", ">\n", "G*-\n"]

    assert list(read(lines)) == [("sp|P1|X name  of it", "ACDef"), ("2", ""), ("", "G*-")]
    assert list(read([])) == []


def test_text_before_the_first_header_is_named() -> None:
    with pytest.raises(FastaError, match="line 2"):
        list(read(["\n", "ACDE\n", ">x\n"]))
    with pytest.raises(FastaError, match=r"is 'A{63}\.\.\.', expected"):
        list(read(["A" * 65]))


def test_line_ends_of_old_macintosh_files_are_named() -> None:
    with pytest.raises(FastaError, match="line 1"):
        list(read([">P1\rSEQ\r>P2\rACD\r"]))
