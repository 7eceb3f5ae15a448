"""The vectors and the mapping of a folder of bio_embeddings 0.2.3.

Sources: `utilities/pipeline.py`, `embed/pipeline.py`.
"""

from __future__ import annotations

import csv
from contextlib import ExitStack
from hashlib import md5
from typing import TYPE_CHECKING, Any, Final

from elmo_model.files.hdf5_writer import hdf5_writer
from elmo_serve.files.inputs import Sentence
from elmo_serve.files.outputs.output_format import Facts, Items, Target, path_of

if TYPE_CHECKING:
    import h5py
    from numpy.typing import NDArray

STAGE: Final = "seqvec_embeddings"
"""The folder of the vectors in that of bio_embeddings, as in its examples."""


def original_id(header: str) -> str:
    """Return the id in a header as Biopython reads it: its first word."""
    return (header.split(maxsplit=1) or [""])[0]


def key_of(sequence: str) -> str:
    """Return the name of a record in bio_embeddings: the MD5 of its sequence."""
    return md5(sequence.encode(), usedforsecurity=False).hexdigest()


def add_record(
    file: h5py.File, key: str, sentence: Sentence, vectors: NDArray[Any], **storage: Any
) -> None:
    """Write the vectors of a record under a key, with its id, unless the key is there."""
    if key not in file:
        dataset = file.create_dataset(key, data=vectors, **storage)
        dataset.attrs["original_id"] = original_id(sentence.text)


def write_bio_embeddings(target: Target, items: Items, facts: Facts) -> None:
    """Write the HDF5 files of the stage `embed`, and `mapping_file.csv` in the order of the input.

    The mapping has a row a record: its key, its id and its length.
    """
    folder = path_of(target)
    (folder / STAGE).mkdir(parents=True)
    is_pooled = facts.output.pooling != "none"
    with ExitStack() as stack:
        made = hdf5_writer(folder / STAGE / "reduced_embeddings_file.h5")
        reduced, check_reduced = stack.enter_context(made)
        whole, check_whole = reduced, check_reduced
        if not is_pooled:
            made = hdf5_writer(folder / STAGE / "embeddings_file.h5")
            whole, check_whole = stack.enter_context(made)
        mapping = (folder / "mapping_file.csv").open("w", encoding="utf-8", newline="\n")
        rows = csv.writer(stack.enter_context(mapping), lineterminator="\n")
        rows.writerow(("", "original_id", "sequence_length"))
        for sentence, vectors in items:
            sequence = "".join(sentence.tokens)
            key = key_of(sequence)
            add_record(whole, key, sentence, vectors)
            if not is_pooled:
                # The mean over no residues is not defined: zeros, as the server responds.
                mean = vectors.sum(0).mean(0) if sequence else vectors.sum((0, 1))
                add_record(reduced, key, sentence, mean)
            check_whole()
            check_reduced()
            rows.writerow((key, original_id(sentence.text), len(sequence)))
