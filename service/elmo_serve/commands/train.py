"""The command `elmo train`."""

# ruff: noqa: PLC0415 - `elmo --help` must not wait for imports it has no use for

from __future__ import annotations

from pathlib import Path

import click

from elmo_serve.commands.terminal import fail


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--text", multiple=True, required=True, help="Shards: a path or a pattern; again.")
@click.option("--heldout", type=click.Path(path_type=Path), help="Text to measure on meanwhile.")
@click.option("--heldout-sentences", type=int, help="First sentences of it that count.")
@click.option("--recipe", help="modern (AdamW, cosine) or reference (bilm-tf's Adagrad).")
@click.option("--shape", help="tiny, half, small, medium, original, or a checkpoint's path.")
@click.option("--vocabulary", type=click.Path(path_type=Path), help="One word a line, by rank.")
@click.option("--vocabulary-size", type=int, help="Words taken from the text when none is given.")
@click.option("--epochs", type=float, help="How often the text is read.")
@click.option("--steps", type=int, help="Steps instead of epochs.")
@click.option("--rows", type=int, help="Rows of a batch, of all processes together.")
@click.option("--unroll", type=int, help="Steps of truncated back-propagation.")
@click.option("--softmax", help="sampled or full.")
@click.option("--state", help="fresh: zero before every sentence; carried: as bilm-tf has it.")
@click.option("--samples", type=int, help="Words that the sampled softmax draws.")
@click.option("--dropout", type=float)
@click.option("--learning-rate", type=float)
@click.option("--warmup", type=float, help="Share of the steps.")
@click.option("--weight-decay", type=float)
@click.option("--clip-norm", type=float, help="Greatest norm of the whole gradient.")
@click.option("--seed", type=int)
@click.option("--name", help="Name of the model; that of the folder when not given.")
@click.option("--precision", help="float32 or bfloat16; bfloat16 for modern on a GPU.")
@click.option("--device", help="cpu or cuda; cuda where there is one.")
@click.option("--time-loop", help="joined, compiled or plain: the same numbers, other speeds.")
@click.option("--minutes", type=float, help="End early after so long, saved.")
@click.option("--log-every", type=int, help="Steps between two lines of the log.")
@click.option("--measure-every", type=int, help="Steps between two held-out perplexities.")
@click.option("--save-every", type=int, help="Steps between two snapshots.")
@click.option("--workers", type=int, help="Processes that encode the text at first.")
@click.option("--encoded", type=click.Path(path_type=Path), help="Folder for the encoded text.")
@click.pass_context
def train(ctx: click.Context, /, **values: object) -> None:
    """Pretrain a biLM on text into the folder RUN.

    The same command again goes on from the last snapshot. RUN holds model.safetensors and the
    published pair when it ends, however it ends.
    """
    from elmo_model.training.command import CommandError, TrainOptions
    from elmo_model.training.command import train as run

    given = {key: value for key, value in values.items() if value is not None}
    try:
        code = run(TrainOptions(**given))  # type: ignore[arg-type]
    except CommandError as error:
        fail(str(error), code=1)
    ctx.exit(code)
