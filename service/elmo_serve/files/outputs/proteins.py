"""Files of vectors of proteins, in the layouts of three tools.

| layout | file | dataset | source |
|---|---|---|---|
| `seqvec` | HDF5 or .npz | the id | Rostlab/SeqVec 0.4.1 |
| `bio_embeddings` | a folder: HDF5 and CSV | MD5 of the sequence | its release 0.2.3 |
| `biotrainer` | HDF5 | SHA-256 of the sequence | its release 1.4 |
"""

from __future__ import annotations

import csv
from dataclasses import replace
from hashlib import md5, sha256
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from elmo_model.files.hdf5_writer import hdf5_writer
from elmo_serve.files.inputs import Rules, Sentence
from elmo_serve.files.outputs import allennlp, npz
from elmo_serve.files.outputs.output_format import (
    Facts,
    Items,
    Layout,
    OutputFormat,
    Target,
    path_of,
    refuse_stacks,
)

if TYPE_CHECKING:
    import h5py
    from numpy.typing import NDArray

STAGE: Final = "seqvec_embeddings"
"""The folder of the vectors in that of bio_embeddings, as in its examples."""


def _write_biotrainer(target: Target, items: Items, facts: Facts) -> None:
    with hdf5_writer(path_of(target)) as (file, check):
        for sentence, vectors in items:
            sequence = "".join(sentence.tokens)
            key = sha256(f"{sequence}_{len(sequence)}".encode()).hexdigest()
            # HDF5 has no chunks of nothing.
            storage = {"compression": "gzip", "chunks": True} if vectors.size else {}
            add_record(file, key, sentence, vectors, **storage)
            check()


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
    """Write the HDF5 file of the stage `embed`, and `mapping_file.csv` in the order of the input.

    One vector a protein is the reduced file, which goPredSim reads. The mapping has a row a record:
    its key, its id and its length.
    """
    folder = path_of(target)
    (folder / STAGE).mkdir(parents=True)
    name = "embeddings_file.h5" if facts.output.pooling == "none" else "reduced_embeddings_file.h5"
    with (
        hdf5_writer(folder / STAGE / name) as (file, check),
        (folder / "mapping_file.csv").open("w", encoding="utf-8", newline="\n") as mapping,
    ):
        rows = csv.writer(mapping, lineterminator="\n")
        rows.writerow(("", "original_id", "sequence_length"))
        for sentence, vectors in items:
            sequence = "".join(sentence.tokens)
            key = key_of(sequence)
            add_record(file, key, sentence, vectors)
            check()
            rows.writerow((key, original_id(sentence.text), len(sequence)))


_SEQVEC = Layout(rules=Rules(upper=True, split_char="|"), repeats="id")

LAYOUTS: Final[dict[str, OutputFormat]] = {
    "seqvec": replace(allennlp.BY_SENTENCE, layout=_SEQVEC),
    "seqvec-npz": OutputFormat(npz.write_by_sentence, layout=_SEQVEC, is_stream=True),
    "bio_embeddings": OutputFormat(
        write_bio_embeddings, layout=Layout("all", Rules(letters_only=True), "sequence")
    ),
    "biotrainer": OutputFormat(
        _write_biotrainer, check=refuse_stacks, layout=Layout(repeats="sequence")
    ),
}
"""The layouts by name. SeqVec has two files, by the ending of OUTPUT."""

SEQVEC_ENDINGS: Final = {".h5": "seqvec", ".hdf5": "seqvec", ".npz": "seqvec-npz"}


def seqvec_layout(path: str) -> str | None:
    """Return the name of the layout of a file of SeqVec by its ending, None for another ending."""
    return SEQVEC_ENDINGS.get(PurePath(path).suffix)
