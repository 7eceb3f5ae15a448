"""Tables of LevelDB: numbers, checksums, recognition."""

from pathlib import Path

import numpy as np
import pytest

from elmo_model.checkpoints.leveldb_table import is_table, masked_crc32c, pairs, varint
from tests.support.tensor_bundle import write_bundle


def test_a_checksum_is_that_of_rfc_3720_masked() -> None:
    plain = 0xE3069283
    rotated = plain >> 15 | (plain << 17 & 0xFFFFFFFF)

    assert masked_crc32c(b"123456789") == (rotated + 0xA282EAD8) % 2**32


def test_numbers_of_one_to_ten_bytes_are_read() -> None:
    assert varint(b"\x00", 0) == (0, 1)
    assert varint(b"?\xac\x02?", 1) == (300, 3)
    assert varint(b"\xff" * 9 + b"\x01", 0) == (2**64 - 1, 10)
    with pytest.raises(ValueError, match="more than ten bytes"):
        varint(b"\xff" * 11, 0)
    with pytest.raises(IndexError):
        varint(b"\xff", 0)


def test_a_table_is_recognised_by_its_end(tmp_path: Path) -> None:
    index = write_bundle(tmp_path / "a", {"x": np.zeros(2, np.float32)})
    (tmp_path / "short").write_bytes(b"x")

    assert is_table(index)
    assert not is_table(tmp_path / "short")
    assert not is_table(tmp_path / "nowhere")


def test_keys_with_shared_prefixes_are_restored(tmp_path: Path) -> None:
    names = [f"lm/RNN_0/cell_{number}/kernel" for number in range(20)]
    index = write_bundle(tmp_path / "a", {name: np.zeros(1, np.float32) for name in names})

    keys = [key.decode() for key, _ in pairs("label", index.read_bytes())]

    assert keys == ["", *sorted(names)]
