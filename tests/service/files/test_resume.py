"""The part and the journal of a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from elmo_serve.files.resume import PartFile
from elmo_serve.files.sentence import FileError

RUN = {"layers": "all"}


def vectors(count: int) -> list[np.ndarray]:
    return [np.full((2, 3), number, np.float32) for number in range(count)]


def test_kept_arrays_and_state_are_there_again(tmp_path: Path) -> None:
    output = tmp_path / "out"
    with PartFile.open(output, RUN, discard=False) as part:
        part.append(vectors(2), tokens=4)
        part.keep({"h": np.ones(3, np.float32)})
        part.append(vectors(1), tokens=2)  # never kept

    with PartFile.open(output, RUN, discard=False) as part:
        assert (part.progress.sentences, part.progress.tokens, part.kept) == (2, 4, 2)
        assert np.array_equal(part.progress.state["h"], np.ones(3))
        found = list(part.arrays([(2, 3)] * 2))
        part.remove()

    assert all(np.array_equal(one, other) for one, other in zip(found, vectors(2), strict=True))
    assert list(tmp_path.iterdir()) == []


def test_the_journal_is_there_before_the_first_byte(tmp_path: Path) -> None:
    with PartFile.open(tmp_path / "out", RUN, discard=False) as part:
        assert part.journal.exists()
        assert part.kept == 0


def test_a_part_that_changes_while_it_is_read_is_noticed(tmp_path: Path) -> None:
    with PartFile.open(tmp_path / "out", RUN, discard=False) as part:
        part.append(vectors(2), tokens=4)
        part.keep({})
        data = bytearray(part.path.read_bytes())
        part.path.write_bytes(bytes([data[0] ^ 1]) + data[1:])
        with pytest.raises(FileError, match="was changed after it was written"):
            list(part.arrays([(2, 3)] * 2))
        with pytest.raises(FileError, match="is shorter than it was written"):
            list(part.arrays([(2, 3)] * 3))


def test_another_run_is_refused_or_discarded(tmp_path: Path) -> None:
    output = tmp_path / "out"
    with PartFile.open(output, RUN, discard=False) as part:
        part.append(vectors(2), tokens=4)
        part.keep({})
    other = {"layers": "top"}

    with (
        pytest.raises(FileError, match="was begun with layers 'all', and this is 'top'"),
        PartFile.open(output, other, discard=False),
    ):
        pass
    with PartFile.open(output, other, discard=True) as part:
        assert part.progress.sentences == 0
        assert part.path.stat().st_size == 0


def test_two_runs_cannot_hold_one_part(tmp_path: Path) -> None:
    output = tmp_path / "out"
    with (
        PartFile.open(output, RUN, discard=False),
        pytest.raises(FileError, match="is being written by another process"),
        PartFile.open(output, RUN, discard=False),
    ):
        pass
