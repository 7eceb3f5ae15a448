"""The folder of predictions of bio_embeddings' `seqvec_from_publication`."""

from __future__ import annotations

import csv
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from elmo_serve.files.outputs.bio_embeddings import (
    empty_folder,
    key_of,
    open_text,
    original_id,
    write_record,
)
from elmo_serve.files.outputs.output_format import Facts, Items, OutputFormat, Target, path_of
from elmo_serve.files.outputs.proteins import LAYOUTS

if TYPE_CHECKING:
    from elmo_model.tasks.protein_heads import LocationHead, StructureHead


def format_of_heads(structure: StructureHead | None, location: LocationHead | None) -> OutputFormat:
    """Return the format that writes the classes of proteins from the sum of the layers."""
    write = partial(_write, structure=structure, location=location)
    return OutputFormat(write, layout=LAYOUTS["bio_embeddings"].layout)


def _write(
    target: Target,
    items: Items,
    facts: Facts,
    *,
    structure: StructureHead | None,
    location: LocationHead | None,
) -> None:
    folder = empty_folder(path_of(target))
    with ExitStack() as stack:
        names = ("DSSP3", "DSSP8", "disorder") if structure is not None else ()
        files = {
            name: stack.enter_context(open_text(folder / f"{name}_predictions_file.fasta", "w"))
            for name in names
        }
        table = stack.enter_context(open_text(folder / "per_sequence_predictions_file.csv", "w"))
        rows = csv.writer(table, lineterminator="\n")
        places = ("subcellular_location", "membrane_or_soluble") if location is not None else ()
        rows.writerow(("", "original_id", "sequence_length", *places))
        for sentence, vectors in items:
            key = key_of("".join(sentence.tokens))
            if structure is not None:
                for name, letters in structure.classes(vectors).items():
                    write_record(files[name], f"{key} {sentence.text}".rstrip(), letters)
            found = location.classes(vectors) if location is not None else ()
            rows.writerow((key, original_id(sentence.text), len(sentence.tokens), *found))
