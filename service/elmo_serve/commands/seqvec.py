"""The command `elmo seqvec`: the command line of SeqVec, which `elmo embed` carries out."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from elmo_serve.commands.embed import embed
from elmo_serve.commands.options import is_given
from elmo_serve.commands.terminal import fail, tell
from elmo_serve.files.inputs import UNKNOWN
from elmo_serve.files.outputs.proteins import seqvec_layout

_LAYERS: Final = {
    "sum": "--sum",
    "all": "--concat",
    "CNN": "--layer=0",
    "LSTM1": "--layer=1",
    "LSTM2": "--layer=2",
}
"""The option of `elmo embed` for each --layer."""


@click.command()
@click.option("-i", "--input", "source", required=True, type=click.Path(exists=True), help="FASTA.")
@click.option("-o", "--output", required=True, type=click.Path(), help=".h5, .hdf5, .npz or .npy.")
@click.option(
    "--model",
    envvar="ELMO_MODEL",
    show_envvar=True,
    metavar="PATH",
    help="Name or path of the model. Default: ./model, or else the published SeqVec.",
)
@click.option(
    "--protein",
    is_flag=False,
    flag_value=True,
    default=False,
    type=click.BOOL,
    metavar="[True]",
    help="One vector a protein, the mean over its residues.",
)
@click.option(
    "--layer", type=click.Choice(list(_LAYERS)), help="Default: sum. all: the three layers joined."
)
@click.option("--no-sum-layers", is_flag=True, help="As --layer all (before SeqVec 0.3).")
@click.option("--batchsize", "--max_size", type=int, help="No effect: batches are chosen here.")
@click.option("--split-char", default="|", show_default=True, help="Splits the header.")
@click.option(
    "--id",
    type=click.IntRange(min=-1),
    default=1,
    show_default=True,
    help="The field of the header that is the id, from 0; -1: the whole header.",
)
@click.option("--cpu", is_flag=True, help="Compute on the CPU.")
@click.option(
    "--unknown",
    type=click.Choice(UNKNOWN, case_sensitive=False),
    default="keep",
    show_default=True,
    help="What becomes of letters other than the 25 of amino acids.",
)
@click.option("--force", is_flag=True, help="Replace OUTPUT.")
@click.option("--silent", is_flag=True, help="Omit the note of --batchsize.")
def seqvec(source: str, output: str, layer: str | None, **values: Any) -> None:
    """Write vectors of proteins, with the flags of SeqVec.

    INPUT is FASTA, plain or compressed, or a folder of such files. The vectors are those that
    `elmo embed --layout seqvec` writes.

    \b
    Examples:
      $ elmo seqvec -i proteins.fasta -o vectors.h5
      $ elmo seqvec -i proteins.fasta -o vectors.npz --protein True --id 0
    """
    if seqvec_layout(output) is None:
        fail(f"{output} ends in {Path(output).suffix!r}, expected .h5, .hdf5, .npz or .npy", code=2)
    if values["no_sum_layers"] and layer not in (None, "all"):
        fail(f"--no-sum-layers is --layer all, and --layer is {layer}: leave out one", code=2)
    if values["batchsize"] is not None and not values["silent"]:
        tell("--batchsize and --max_size have no effect: batches are chosen by this program")
    options = [
        f"--split-char={values['split_char']}",
        f"--id={values['id']}",
        f"--unknown={values['unknown']}",
        f"--device={'cpu' if values['cpu'] else 'auto'}",
        _LAYERS["all" if values["no_sum_layers"] else layer or "sum"],
    ]
    options += [f"--{name}" for name in ("protein", "force") if values[name]]
    if is_given("model") or not values["model"]:  # `elmo embed` reads ELMO_MODEL itself
        usual = "./model" if Path("model").is_dir() else "seqvec"
        options.append(f"--model={values['model'] or usual}")
    command = ["--layout=seqvec", *options, "--", source, output]
    with embed.make_context("embed", command, parent=click.get_current_context()) as context:
        embed.invoke(context)
