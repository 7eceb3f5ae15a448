"""The folders of bio_embeddings 0.2.3, of vectors and of predictions.

Sources: `utilities/pipeline.py`, `embed/pipeline.py`, `extract/basic`.
"""

# ruff: noqa: PLC0415 - numpy is imported when a file is written

from __future__ import annotations

import csv
import json
import shutil
from array import array
from contextlib import ExitStack
from hashlib import md5
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO, cast

from elmo_model.files.hdf5_writer import hdf5_writer
from elmo_model.text import fasta
from elmo_serve.files.inputs import Sentence
from elmo_serve.files.outputs.output_format import Facts, Items, OutputFormat, Target, path_of

if TYPE_CHECKING:
    import h5py
    from numpy.typing import NDArray

    from elmo_model.tasks.protein_heads import LocationHead, StructureHead

STAGE: Final = "seqvec_embeddings"
"""The folder of the vectors in that of bio_embeddings, as in its examples."""

_LINE: Final = 60  # letters in a line of FASTA, as Biopython writes it


def original_id(header: str) -> str:
    """Return the id in a header as Biopython reads it: its first word."""
    return (header.split(maxsplit=1) or [""])[0]


def key_of(sequence: str) -> str:
    """Return the name of a record in bio_embeddings: the MD5 of its sequence."""
    return md5(sequence.encode(), usedforsecurity=False).hexdigest()


def empty_folder(path: Path) -> Path:
    """Make a folder, in place of one that a run which was killed has left."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def add_record(
    file: h5py.File, key: str, sentence: Sentence, vectors: NDArray[Any], **storage: Any
) -> None:
    """Write the vectors of a record under a key, with its id, unless the key is there."""
    if key not in file:
        dataset = file.create_dataset(key, data=vectors, **storage)
        dataset.attrs["original_id"] = original_id(sentence.text)


def write_bio_embeddings(target: Target, items: Items, facts: Facts) -> None:
    """Write the folder of a run of the pipeline: a stage `embed`, and what comes before it."""
    folder = empty_folder(path_of(target))
    (folder / STAGE).mkdir()
    is_pooled = facts.output.pooling != "none"
    lengths, offsets = array("q"), array("q")
    with ExitStack() as stack:
        made = hdf5_writer(folder / STAGE / "reduced_embeddings_file.h5")
        reduced, check_reduced = stack.enter_context(made)
        whole, check_whole = reduced, check_reduced
        if not is_pooled:
            made = hdf5_writer(folder / STAGE / "embeddings_file.h5")
            whole, check_whole = stack.enter_context(made)
        sequences = stack.enter_context(open_text(folder / "sequences_file.fasta", "w"))
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
            lengths.append(len(sequence))
            offsets.append(sequences.tell())
            write_record(sequences, sentence.text, sequence)
    _write_mapping(folder, lengths, offsets)
    _write_parameters(folder, facts)


def open_text(path: Path, mode: str) -> TextIO:
    """Open a file of UTF-8 whose lines end at newlines alone."""
    return cast("TextIO", path.open(mode, encoding="utf-8", newline="\n"))


def write_record(file: TextIO, header: str, sequence: str) -> None:
    """Write a record of FASTA, as Biopython writes it."""
    lines = (sequence[at : at + _LINE] for at in range(0, len(sequence), _LINE))
    file.write("".join(f"{line}\n" for line in (f">{header}", *lines)))


def _write_mapping(folder: Path, lengths: array[int], offsets: array[int]) -> None:
    """Write keys, ids and lengths, the longest record first: the order of bio_embeddings.

    The records are read again from the copy of the input, so that they need not be in memory.
    """
    import numpy as np

    order = np.argsort(-np.frombuffer(lengths, np.int64), kind="stable") if lengths else ()
    with (
        open_text(folder / "sequences_file.fasta", "r") as sequences,
        open_text(folder / "remapped_sequences_file.fasta", "w") as remapped,
        open_text(folder / "mapping_file.csv", "w") as mapping,
    ):
        rows = csv.writer(mapping, lineterminator="\n")
        rows.writerow(("", "original_id", "sequence_length"))
        for place in order:
            sequences.seek(offsets[place])
            header, sequence = next(fasta.read(iter(sequences.readline, "")))
            key = key_of(sequence)
            rows.writerow((key, original_id(header), len(sequence)))
            write_record(remapped, f"{key} {header}".rstrip(), sequence)


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


# The predictions of its stage `seqvec_from_publication`


def format_of_heads(structure: StructureHead | None, location: LocationHead | None) -> OutputFormat:
    """Return the format that writes the classes of proteins from the sum of the layers."""
    kinds = ("DSSP3", "DSSP8", "disorder") if structure is not None else ()
    places = ("subcellular_location", "membrane_or_soluble") if location is not None else ()

    def write(target: Target, items: Items, _facts: Facts) -> None:
        folder = empty_folder(path_of(target))
        with ExitStack() as stack:
            files = {
                kind: stack.enter_context(open_text(folder / f"{kind}_predictions_file.fasta", "w"))
                for kind in kinds
            }
            table = open_text(folder / "per_sequence_predictions_file.csv", "w")
            rows = csv.writer(stack.enter_context(table), lineterminator="\n")
            rows.writerow(("", "original_id", "sequence_length", *places))
            for sentence, vectors in items:
                key = key_of("".join(sentence.tokens))
                if structure is not None:
                    for kind, letters in structure.classes(vectors).items():
                        write_record(files[kind], f"{key} {sentence.text}".rstrip(), letters)
                found = location.classes(vectors) if location is not None else ()
                rows.writerow((key, original_id(sentence.text), len(sentence.tokens), *found))

    return OutputFormat(write)
