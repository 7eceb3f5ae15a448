"""The command `elmo train`."""

# ruff: noqa: PLC0415 - `elmo --help` must not wait for imports that it does not use

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from elmo_serve.commands.terminal import fail

SHAPES = ("tiny", "half", "small", "medium", "original")


class Shape(click.ParamType[str]):
    """The name of a shape, or the path of a checkpoint whose shape is taken."""

    name = "shape"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name or path. Raises click.BadParameter for neither."""
        if value not in SHAPES and not Path(value).exists():
            expected = ", ".join(SHAPES)
            self.fail(f"{value!r} is none of {expected} and no checkpoint's path.", param, ctx)
        return str(value)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return the shapes as the help shows them."""
        return f"[{'|'.join(SHAPES)}|PATH]"


_file = click.Path(path_type=Path)


def _choice(*names: str) -> click.Choice[str]:
    return click.Choice(names)


@click.command(context_settings={"show_default": True})
@click.argument("run", type=_file)
@click.option(
    "--text", multiple=True, required=True, help="Text: a path or a pattern; may be repeated."
)
@click.option("--heldout", type=_file, help="Text on which perplexity is measured meanwhile.")
@click.option("--heldout-sentences", default=2000, help="Measure on its first sentences.")
@click.option(
    "--recipe",
    type=_choice("reference", "modern"),
    default="modern",
    help="modern is AdamW and bfloat16; reference is bilm-tf's Adagrad.",
)
@click.option("--shape", type=Shape(), default="small", help="Size of the network.")
@click.option("--cell", type=int, help="Cells of an LSTM, instead of the shape's.")
@click.option("--projection", type=int, help="Width of a direction, instead of the shape's.")
@click.option("--vocabulary", type=_file, help="Words to predict: one a line, most frequent first.")
@click.option("--vocabulary-size", default=50_000, help="Words taken from the text without a file.")
@click.option("--epochs", type=float, help="Passes over the text.  [default: the recipe's]")
@click.option("--steps", type=int, help="Steps, instead of epochs.")
@click.option("--tokens", type=int, help="Tokens in each direction, instead of epochs.")
@click.option("--rows", type=int, help="Rows of a batch, of all processes together.")
@click.option("--unroll", type=int, help="Steps of truncated back-propagation.")
@click.option(
    "--softmax", type=_choice("sampled", "full"), default="sampled", help="Softmax while training."
)
@click.option(
    "--state",
    type=_choice("fresh", "carried"),
    help="fresh: zero before every sentence; carried: never zero again, as in bilm-tf.",
)
@click.option("--samples", type=int, help="Words that the sampled softmax draws.")
@click.option("--dropout", type=float, help="Share of values that are dropped.")
@click.option("--learning-rate", type=float, help="Peak of the learning rate.")
@click.option(
    "--schedule",
    type=_choice("constant", "constant-decay", "cosine"),
    help="Learning rate after the warm-up; a run with cosine cannot be lengthened.",
)
@click.option("--warmup", type=float, help="Share of the steps in which the rate rises.")
@click.option("--warmup-steps", type=int, help="Longest warm-up in steps.")
@click.option("--decay", type=float, help="Share of the steps in which constant-decay falls.")
@click.option("--weight-decay", type=float, help="AdamW's weight decay of matrices.")
@click.option("--clip-norm", type=float, help="Greatest norm of the whole gradient.")
@click.option("--average", type=float, help="Decay of the weights' moving average; 0 for none.")
@click.option("--seed", default=1, help="Seed of weights, order of the text, samples and dropout.")
@click.option("--name", help="Name of the model.  [default: the name of the folder]")
@click.option(
    "--precision",
    type=_choice("float32", "bfloat16"),
    help="Precision of products.  [default: bfloat16 for modern on a GPU, else float32]",
)
@click.option("--device", type=_choice("cpu", "cuda"), help="[default: cuda if there is one]")
@click.option("--minutes", type=float, help="Stop after so many minutes of this sitting, saved.")
@click.option("--log-every", default=100, help="Steps between two lines of the log.")
@click.option("--measure-every", default=5000, help="Steps between two held-out perplexities.")
@click.option("--save-every", default=5000, help="Steps between two snapshots.")
@click.option("--save-minutes", default=5.0, help="Longest time between two snapshots.")
@click.option("--workers", type=int, help="Processes that encode the text.  [default: one a core]")
@click.option("--encoded", type=_file, help="Folder for the encoded text.  [default: RUN/corpus]")
@click.pass_context
def train(ctx: click.Context, /, **values: object) -> None:
    """Pretrain a biLM on text, in the folder RUN.

    The same command continues a run that was stopped. Ctrl-C, SIGTERM, a lost terminal and
    --minutes stop it after saving: RUN then holds model.safetensors and the published pair.

    Example: elmo train runs/tiny --text 'corpus/*.txt' --heldout heldout.txt --shape tiny
    """
    from elmo_model.training.command import CommandError, TrainOptions
    from elmo_model.training.command import train as run

    given = {key: value for key, value in values.items() if value is not None}
    try:
        code = run(TrainOptions(**given))  # type: ignore[arg-type]
    except CommandError as error:
        fail(str(error), code=1)
    ctx.exit(code)
