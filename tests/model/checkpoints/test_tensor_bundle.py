"""TensorFlow checkpoints: every bit of the index is protected by a checksum."""

from pathlib import Path

import numpy as np

from elmo_model.checkpoints import CheckpointError
from elmo_model.checkpoints.source import in_folder
from elmo_model.checkpoints.tensor_bundle import open_bundle
from tests.support.checkpoint_formats import variables, write_bundle
from tests.support.checkpoints import write_pair


def test_a_wrong_bit_anywhere_in_the_index_is_noticed(tmp_path: Path) -> None:
    index = write_bundle(tmp_path / "model.ckpt-7", variables(write_pair(tmp_path / "pair")))
    whole, source = index.read_bytes(), in_folder(tmp_path)
    with open_bundle(source, index.name) as bundle:
        shapes = bundle.shapes
        arrays = {name: bundle.read(name) for name in shapes if name != "global_step"}
    unnoticed = 0
    for position in range(0, len(whole), 11):
        broken = bytearray(whole)
        broken[position] ^= 0x81
        index.write_bytes(broken)
        try:
            with open_bundle(source, index.name) as bundle:
                assert bundle.shapes == shapes
                for name, array in arrays.items():
                    np.testing.assert_array_equal(bundle.read(name), array)
                unnoticed += 1
        except CheckpointError as refusal:
            assert "is not a whole index" in str(refusal)
    # The padding of the footer and the empty block of statistics are not read.
    assert unnoticed <= 48 // 11 + 2
