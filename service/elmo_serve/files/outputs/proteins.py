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

import csv
import json
import shutil
from array import array
from contextlib import ExitStack
from dataclasses import replace
from hashlib import md5, sha256
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final, TextIO, cast

from elmo_model.files import atomic as atomic_files
from elmo_model.files.hdf5_writer import hdf5_writer
from elmo_model.text import fasta
from elmo_serve.files.inputs import FileError, Sentence
from elmo_serve.files.outputs import allennlp, npz
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
    from numpy.typing import NDArray

STAGE: Final = "seqvec_embeddings"
"""The folder of the vectors in that of bio_embeddings, as in its examples."""

_LINE: Final = 60  # letters in a line of FASTA, as Biopython writes it
_ROWS: Final = 64  # rows of a chunk of scikit-bio's file: 256 KiB at the published width


def original_id(header: str) -> str:
    """Return the id in a header as Biopython reads it: its first word."""
    return (header.split(maxsplit=1) or [""])[0]


def _add(
    file: h5py.File, key: str, sentence: Sentence, vectors: NDArray[Any], **storage: Any
) -> None:
    """Write the vectors of a record under a key, with its id, unless the key is there."""
    if key not in file:
        dataset = file.create_dataset(key, data=vectors, **storage)
        dataset.attrs["original_id"] = original_id(sentence.text)


def _check_vectors(output: Output) -> Check:
    refuse_stacks(output)
    return _check_headers(output)


def _check_headers(_output: Output) -> Check:
    def check(sentence: Sentence) -> None:
        if "\0" in sentence.text:
            raise FileError("has a null character in its header, which HDF5 cannot hold")

    return check


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
        raise FileError("a .npy of seqvec holds one vector a protein: --protein")
    return lambda _sentence: None


# bio_embeddings


def _write_bio_embeddings(target: Target, items: Items, facts: Facts) -> None:
    """Write the folder of a run of the pipeline: a stage `embed`, and what comes before it."""
    folder = path_of(target)
    shutil.rmtree(folder, ignore_errors=True)  # of a run that was killed
    (folder / STAGE).mkdir(parents=True)
    is_pooled = facts.output.pooling != "none"
    lengths, offsets = array("q"), array("q")
    with ExitStack() as stack:
        made = hdf5_writer(folder / STAGE / "reduced_embeddings_file.h5")
        reduced, check_reduced = stack.enter_context(made)
        whole, check_whole = reduced, check_reduced
        if not is_pooled:
            made = hdf5_writer(folder / STAGE / "embeddings_file.h5")
            whole, check_whole = stack.enter_context(made)
        sequences = stack.enter_context(_open(folder / "sequences_file.fasta", "w"))
        for sentence, vectors in items:
            sequence = "".join(sentence.tokens)
            key = md5(sequence.encode(), usedforsecurity=False).hexdigest()
            _add(whole, key, sentence, vectors)
            if not is_pooled:
                # The mean over no residues is not defined: zeros, as the server responds.
                mean = vectors.sum(0).mean(0) if sequence else vectors.sum((0, 1))
                _add(reduced, key, sentence, mean)
            check_whole()
            check_reduced()
            lengths.append(len(sequence))
            offsets.append(sequences.tell())
            _write_record(sequences, sentence.text, sequence)
    _write_mapping(folder, lengths, offsets)
    _write_parameters(folder, facts)


def _open(path: Path, mode: str) -> TextIO:
    return cast("TextIO", path.open(mode, encoding="utf-8", newline="\n"))


def _write_record(file: TextIO, header: str, sequence: str) -> None:
    lines = (sequence[at : at + _LINE] for at in range(0, len(sequence), _LINE))
    file.write("".join(f"{line}\n" for line in (f">{header}", *lines)))


def _write_mapping(folder: Path, lengths: array[int], offsets: array[int]) -> None:
    """Write keys, ids and lengths, the longest record first: the order of bio_embeddings.

    The records are read again from the copy of the input, so that they need not be in memory.
    """
    import numpy as np

    order = np.argsort(-np.frombuffer(lengths, np.int64), kind="stable") if lengths else ()
    with (
        _open(folder / "sequences_file.fasta", "r") as sequences,
        _open(folder / "remapped_sequences_file.fasta", "w") as remapped,
        _open(folder / "mapping_file.csv", "w") as mapping,
    ):
        rows = csv.writer(mapping, lineterminator="\n")
        rows.writerow(("", "original_id", "sequence_length"))
        for place in order:
            sequences.seek(offsets[place])
            header, sequence = next(fasta.read(iter(sequences.readline, "")))
            key = md5(sequence.encode(), usedforsecurity=False).hexdigest()
            rows.writerow((key, original_id(header), len(sequence)))
            _write_record(remapped, f"{key} {header}".rstrip(), sequence)


def _write_parameters(folder: Path, facts: Facts) -> None:
    """Write the parameters of the run, from which a later stage knows the paths."""
    prefix, stage = facts.path, facts.path / STAGE
    is_whole = facts.output.pooling == "none"
    start = {"prefix": str(prefix), "sequences_file": str(prefix / "sequences_file.fasta")}
    embed = {
        "type": "embed",
        "protocol": "seqvec",
        "model": facts.model.name,
        "reduce": True,
        "discard_per_amino_acid_embeddings": not is_whole,
    }
    found = {
        **start,
        "simple_remapping": False,
        "mapping_file": str(prefix / "mapping_file.csv"),
        "remapped_sequences_file": str(prefix / "remapped_sequences_file.fasta"),
    }
    vectors = {"reduced_embeddings_file": str(stage / "reduced_embeddings_file.h5")}
    if is_whole:
        vectors["embeddings_file"] = str(stage / "embeddings_file.h5")
    done = {**found, **embed, "stage_name": STAGE}
    whole = {**done, **vectors}
    for path, values in (
        (folder / "input_parameters_file.yml", {"global": start, STAGE: embed}),
        (folder / "output_parameters_file.yml", {"global": found, STAGE: whole}),
        (folder / STAGE / "input_parameters_file.yml", done),
        (folder / STAGE / "output_parameters_file.yml", whole),
    ):
        # YAML takes JSON.
        lines = (f"{name}: {json.dumps(value)}\n" for name, value in values.items())
        path.write_text("".join(lines), encoding="utf-8")


# biotrainer


def _write_biotrainer(target: Target, items: Items, facts: Facts) -> None:
    with hdf5_writer(path_of(target)) as (file, check):
        for sentence, vectors in items:
            sequence = "".join(sentence.tokens)
            key = sha256(f"{sequence}_{len(sequence)}".encode()).hexdigest()
            # HDF5 has no chunks of nothing.
            storage = {"compression": "gzip", "chunks": True} if vectors.size else {}
            _add(file, key, sentence, vectors, **storage)
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
    check_header = _check_vectors(output)

    def check(sentence: Sentence) -> None:
        check_header(sentence)
        if not all(map(str.isascii, sentence.tokens)):
            raise FileError("holds letters beyond ASCII, which scikit-bio's file has no room for")

    return check


_SEQVEC = Layout(upper=True, has_ids=True, repeats="id")

LAYOUTS: Final[dict[str, OutputFormat]] = {
    "seqvec": replace(allennlp.BY_SENTENCE, layout=_SEQVEC),
    "seqvec-npz": OutputFormat(npz.write_by_sentence, layout=_SEQVEC, is_stream=True),
    "seqvec-npy": OutputFormat(_write_npy, check=_check_matrix, layout=_SEQVEC),
    "bio_embeddings": OutputFormat(
        _write_bio_embeddings,
        check=_check_headers,
        layout=Layout(layers="all", letters_only=True, repeats="sequence"),
    ),
    "biotrainer": OutputFormat(
        _write_biotrainer, check=_check_vectors, layout=Layout(repeats="sequence")
    ),
    "scikit-bio": OutputFormat(_write_scikit_bio, check=_check_scikit_bio, layout=Layout()),
}
"""The layouts by name. SeqVec's command has three files, by the ending of OUTPUT."""

_SEQVEC_ENDINGS: Final = {
    **{".h5": "seqvec", ".hdf5": "seqvec"},
    **{".npz": "seqvec-npz", ".npy": "seqvec-npy"},
}


def seqvec_layout(path: str) -> str | None:
    """Return the name of the layout of a file of SeqVec by its ending, None for another ending."""
    return _SEQVEC_ENDINGS.get(PurePath(path).suffix)
