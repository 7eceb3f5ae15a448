"""The command `elmo annotate`."""

from __future__ import annotations

import hashlib
from pathlib import Path

import click

from elmo_model.errors import counted
from elmo_serve.commands.options import device_option, model_option
from elmo_serve.commands.published import resolve_model
from elmo_serve.commands.terminal import fail, steps, tell
from elmo_serve.files.inputs import Rules
from elmo_serve.files.outputs.bio_embeddings import format_of_heads
from elmo_serve.files.proteins import Records

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command()
@click.argument("input", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.argument("output", type=click.Path(path_type=Path))
@click.option("--structure", type=_FILE, help="Weights of the secondary structure.")
@click.option("--location", type=_FILE, help="Weights of the place in the cell.")
@model_option(default="seqvec")
@device_option()
def annotate(
    input: str,  # noqa: A002 - the argument's name
    output: Path,
    structure: Path | None,
    location: Path | None,
    model: str,
    device: str,
) -> None:
    """Predict structure and location of proteins.

    The heads are those published with SeqVec; their weights are state dictionaries of torch. INPUT
    is FASTA. OUTPUT is a folder with the files of bio_embeddings: predictions of residues as FASTA,
    and of proteins as CSV.

    \b
    Examples:
      $ elmo annotate proteins.fasta predictions --structure secstruct.pt --location subcell.pt
    """
    from elmo_model.tasks.protein_heads import LocationHead, StructureHead, read_head
    from elmo_serve.files.options import EmbedOptions
    from elmo_serve.files.run import EmbedRun

    given = [path for path in (structure, location) if path is not None]
    if not given:
        fail("one of --structure and --location is needed, or both", code=2)
    rules = Rules(letters_only=True)
    run = EmbedOptions("sum", "annotations", resolve_model(model), device=device, rules=rules)
    with Records.open(input, rules) as records, run.open() as source, steps() as step:
        for note in records.notes:
            tell(note)
        width = source.info.dimension
        form = format_of_heads(
            None if structure is None else read_head(StructureHead(width), structure),
            None if location is None else read_head(LocationHead(width), location),
        )
        heads = [hashlib.sha256(path.read_bytes()).hexdigest() for path in given]
        identity = {**run.identity(source.info, "fasta"), "heads": heads}
        report = EmbedRun(records, form, source, step).to_file(output, identity)
    click.echo(f"Wrote {output}: {counted(report.sentences, 'protein')} in {report.seconds:.1f} s")
