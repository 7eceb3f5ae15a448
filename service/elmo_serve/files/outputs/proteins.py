"""Files of vectors of proteins, in the layouts of three tools.

| layout | file | dataset | source |
|---|---|---|---|
| `seqvec` | HDF5 or .npz | the id | Rostlab/SeqVec 0.4.1 |
| `bio_embeddings` | a folder: HDF5 and CSV | MD5 of the sequence | its release 0.2.3 |
| `biotrainer` | HDF5 | SHA-256 of the sequence | its release 1.4 |
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from pathlib import PurePath
from typing import Final

from elmo_model.files.hdf5_writer import hdf5_writer
from elmo_serve.files.inputs import Rules
from elmo_serve.files.outputs import allennlp, npz
from elmo_serve.files.outputs.bio_embeddings import add_record, write_bio_embeddings
from elmo_serve.files.outputs.output_format import (
    Facts,
    Items,
    Layout,
    OutputFormat,
    Target,
    path_of,
    refuse_stacks,
)


def _write_biotrainer(target: Target, items: Items, facts: Facts) -> None:
    with hdf5_writer(path_of(target)) as (file, check):
        for sentence, vectors in items:
            sequence = "".join(sentence.tokens)
            key = sha256(f"{sequence}_{len(sequence)}".encode()).hexdigest()
            # HDF5 has no chunks of nothing.
            storage = {"compression": "gzip", "chunks": True} if vectors.size else {}
            add_record(file, key, sentence, vectors, **storage)
            check()


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
