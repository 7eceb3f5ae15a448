"""The command `elmo train`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from elmo_model.text.tokenizers import TOKENIZERS
from elmo_serve.commands.options import (
    Number,
    PlainText,
    device_option,
    refuse_given,
    resolve_model,
    threads_option,
)
from elmo_serve.commands.terminal import fail

if TYPE_CHECKING:
    from elmo_model.training.trainer import Outcome

_COUNT: Final = click.IntRange(min=1)
_WORDS: Final = {"true": True, "false": False, "none": None}
"""Values of `--set` that are words of their own; any other word is a string."""


def _settings(pairs: Sequence[str], keys: Sequence[str]) -> dict[str, object]:
    """Return the values of `--set` by their keys; end the command for an unknown key."""
    found = dict[str, object]()
    for pair in pairs:
        key, sign, text = pair.partition("=")
        if not sign or key not in keys:
            fail(f"--set is {pair!r}, expected KEY=VALUE with one of {', '.join(keys)}", code=2)
        found[key] = _value(text)
    return found


def _value(text: str) -> object:
    for number in (int, float):
        with suppress(ValueError):
            return number(text)
    return _WORDS.get(text, text)


@click.command(context_settings={"show_default": True})
@click.argument("run", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--text",
    type=PlainText(),
    metavar="TEXT",
    multiple=True,
    required=True,
    help="Text: a path or a pattern in quotes; may be repeated.",
)
@click.option(
    "--heldout",
    type=PlainText(path_type=Path, exists=True, dir_okay=False),
    help="Text on which perplexity is measured meanwhile.",
)
@click.option(
    "--recipe",
    type=click.Choice(("modern", "reference")),
    default="modern",
    help="modern is Muon, on a GPU in bfloat16; reference is bilm-tf's Adagrad.",
)
@click.option(
    "--shape",
    metavar="[tiny|half|small|medium|original|PATH]",
    show_default="small",
    help="Size of the network: a name, or a checkpoint whose shape is taken.",
)
@click.option(
    "--weights",
    metavar="MODEL",
    show_default="random weights",
    help="Continue from the network of a model, with a new softmax.",
)
@click.option(
    "--vocabulary-size", type=_COUNT, default=50_000, help="Words of the text to predict."
)
@click.option("--epochs", type=Number(min=0, min_open=True), default=10, help="Passes over TEXT.")
@click.option("--steps", type=_COUNT, help="Steps, instead of epochs.")
@click.option("--rows", type=_COUNT, default=128, help="Rows of a batch, of 20 tokens a step.")
@click.option(
    "--samples",
    type=click.IntRange(min=0),
    default=8192,
    help="Words that the sampled softmax draws; 0 for the softmax over all words.",
)
@click.option(
    "--softmax-steps",
    type=click.IntRange(min=0),
    default=0,
    help="With --weights: first steps that train the softmax alone.",
)
@click.option(
    "--set",
    "settings",
    metavar="KEY=VALUE",
    multiple=True,
    help="Any other option of the run, which docs/training.md lists; may be repeated.",
)
@click.option(
    "--name",
    show_default="the name of the folder",
    help="Name of the model. Without it model.safetensors, given by its own path, is called model.",
)
@click.option(
    "--tokenizer",
    type=click.Choice(tuple(TOKENIZERS)),
    show_default="that of --weights, or moses",
    help="The tokenizer that made TEXT, stated in the model: nothing is split.",
)
@click.option(
    "--language",
    show_default="that of --weights, or en",
    help="Code of the language of TEXT, stated in the model.",
)
@device_option("auto, cpu or cuda.")
@threads_option
@click.option(
    "--minutes",
    type=Number(min=0),
    help="Stop after this number of minutes, saved; the same command continues.",
)
@click.option("--log-every", type=_COUNT, default=100, help="Steps between two lines of the log.")
@click.pass_context
def train(ctx: click.Context, /, recipe: str, settings: tuple[str, ...], **values: Any) -> None:
    """Pretrain a biLM on text, in the folder RUN.

    The same command continues a run that was stopped. Ctrl-C, SIGTERM, a lost terminal and
    --minutes stop it after saving: RUN then holds model.safetensors and the published pair.

    \b
    Examples:
      $ elmo train runs/tiny --text 'corpus/*.txt' --heldout heldout.txt --shape tiny
      $ elmo train runs/tiny --text 'corpus/*.txt' --set dropout=0 --set learning_rate=0.008
    """
    from elmo_model.training import command
    from elmo_model.training.options import REFERENCE, Options
    from elmo_serve.commands.progress import output, steps

    keys = [field.name for field in fields(Options) if field.name not in values]
    given = {key: value for key, value in values.items() if value is not None}
    given |= _settings(settings, keys)
    if given.keys() & {"steps", "tokens"}:
        refuse_given("has no effect with steps and tokens: leave it out", "epochs")
    if "vocabulary" in given:
        refuse_given("has no effect with a vocabulary: leave it out", "vocabulary_size")
    if "weights" in given:
        given["weights"] = resolve_model(given["weights"])
    recipes: dict[str, dict[str, Any]] = {"modern": {}, "reference": REFERENCE}
    options = Options(**{**recipes[recipe], **given})
    console = output()
    tell = partial(console.print, markup=False)
    with steps(console, lines=False) as on_step:
        outcome = command.train(options, tell, on_step)
    for line in _report(outcome, options.run):
        tell(line)
    # the exit code that a shell gives for a signal
    ctx.exit(0 if outcome.signal is None else 128 + outcome.signal)


def _report(outcome: Outcome, run: Path) -> Iterator[str]:
    """Yield the lines about the end of a run."""
    if outcome.begun == outcome.steps:
        yield f"All {outcome.steps:,} steps were done already; nothing was trained"
    if outcome.stopped:
        yield (
            f"Stopped and saved after step {outcome.step:,} of {outcome.steps:,}; the same command "
            f"continues from there"
        )
    yield f"Wrote {run / 'model.safetensors'}"
