"""Files of vectors of proteins, in the layouts of four tools.

| layout | file | dataset | source |
|---|---|---|---|
| `seqvec` | HDF5, .npz, or .npy with the ids in .json | the id | Rostlab/SeqVec 0.4.1 |
| `bio_embeddings` | a folder: HDF5, FASTA, CSV | MD5 of the sequence | its release 0.2.3 |
| `biotrainer` | HDF5 | SHA-256 of the sequence | its release 1.4 |
| `scikit-bio` | HDF5 | all proteins one after another | `skbio.io.format.embed` |
"""

# ruff: noqa: PLC0415 - h5py and numpy are imported when a file is written

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from elmo_model.errors import OptionError
from elmo_model.files import atomic as atomic_files
from elmo_model.files.hdf5_writer import hdf5_writer
from elmo_serve.files.inputs import FileError, Rules, Sentence
from elmo_serve.files.outputs import allennlp, npz
from elmo_serve.files.outputs.bio_embeddings import add_record, original_id, write_bio_embeddings
from elmo_serve.files.outputs.output_format import (
    Check,
    Facts,
    Items,
    Layout,
    OutputFormat,
    Target,
    path_of,
    refuse_stacks,
)
from elmo_serve.output import Output

if TYPE_CHECKING:
    import h5py

_ROWS: Final = 64  # rows of a chunk of scikit-bio's file: 256 KiB at the published width


# seqvec


def _write_npy(target: Target, items: Items, facts: Facts) -> None:
    """Write one matrix, a row a protein, and the ids of the rows.

    NumPy leaves room in the header for any number of rows, which is known at the end.
    """
    width = facts.output.width(facts.model.dimension)
    ids = []
    with path_of(target).open("wb") as file:
        file.write(npz.header((0, width), "<f4"))
        for sentence, vectors in items:
            ids.append(sentence.text)
            file.write(vectors.tobytes())
        file.seek(0)
        file.write(npz.header((len(ids), width), "<f4"))
    atomic_files.write_bytes(facts.path.with_suffix(".json"), json.dumps(ids).encode())


def _check_matrix(output: Output) -> Check:
    if output.pooling == "none" or output.stacked:
        raise OptionError("a .npy of seqvec holds one vector a protein: --protein")
    return lambda _sentence: None


# biotrainer


def _write_biotrainer(target: Target, items: Items, facts: Facts) -> None:
    with hdf5_writer(path_of(target)) as (file, check):
        for sentence, vectors in items:
            sequence = "".join(sentence.tokens)
            key = sha256(f"{sequence}_{len(sequence)}".encode()).hexdigest()
            # HDF5 has no chunks of nothing.
            storage = {"compression": "gzip", "chunks": True} if vectors.size else {}
            add_record(file, key, sentence, vectors, **storage)
            check()


# scikit-bio


def _write_scikit_bio(target: Target, items: Items, facts: Facts) -> None:
    """Write residues and vectors of all proteins, and where each protein ends in both.

    Its `id` is the sequence; `original_id` is ours, which its reader passes over.
    """
    import h5py
    import numpy as np

    width = facts.output.width(facts.model.dimension)
    with hdf5_writer(path_of(target)) as (file, check):
        file.attrs.update({"format": "embedding", "format-version": "1.0"})
        file.attrs.update({"dtype": "float32", "dim": width})

        def growing(name: str, dtype: Any, *row: int) -> h5py.Dataset:
            chunks = (_ROWS, *row) if row else True
            return file.create_dataset(name, (0, *row), dtype, maxshape=(None, *row), chunks=chunks)

        embedding = growing("embedding", np.float32, width)
        letters, ids = growing("id", np.uint8), growing("original_id", h5py.string_dtype())
        id_ends, embedding_ends = growing("idptr", np.int64), growing("embedding_ptr", np.int64)
        for sentence, vectors in items:
            _append(embedding, vectors.reshape(-1, width))
            _append(letters, np.frombuffer("".join(sentence.tokens).encode("ascii"), np.uint8))
            _append(id_ends, [len(letters)])
            _append(embedding_ends, [len(embedding)])
            _append(ids, [original_id(sentence.text)])
            check()


def _append(dataset: h5py.Dataset, rows: Any) -> None:
    begin = len(dataset)
    if len(rows):
        dataset.resize(begin + len(rows), axis=0)
        dataset[begin:] = rows


def _check_scikit_bio(output: Output) -> Check:
    refuse_stacks(output)

    def check(sentence: Sentence) -> None:
        if not all(map(str.isascii, sentence.tokens)):
            raise FileError("holds letters beyond ASCII, which scikit-bio's file has no room for")

    return check


_SEQVEC = Layout(rules=Rules(upper=True, split_char="|"), repeats="id")

LAYOUTS: Final[dict[str, OutputFormat]] = {
    "seqvec": replace(allennlp.BY_SENTENCE, layout=_SEQVEC),
    "seqvec-npz": OutputFormat(npz.write_by_sentence, layout=_SEQVEC, is_stream=True),
    "seqvec-npy": OutputFormat(_write_npy, check=_check_matrix, layout=_SEQVEC),
    "bio_embeddings": OutputFormat(
        write_bio_embeddings, layout=Layout("all", Rules(letters_only=True), "sequence")
    ),
    "biotrainer": OutputFormat(
        _write_biotrainer, check=refuse_stacks, layout=Layout(repeats="sequence")
    ),
    "scikit-bio": OutputFormat(
        _write_scikit_bio, check=_check_scikit_bio, layout=Layout(rules=Rules(upper=True))
    ),
}
"""The layouts by name. SeqVec's command has three files, by the ending of OUTPUT."""

SEQVEC_ENDINGS: Final = {
    **{".h5": "seqvec", ".hdf5": "seqvec"},
    **{".npz": "seqvec-npz", ".npy": "seqvec-npy"},
}


def seqvec_layout(path: str) -> str | None:
    """Return the name of the layout of a file of SeqVec by its ending, None for another ending."""
    return SEQVEC_ENDINGS.get(PurePath(path).suffix)
