"""The command `elmo train`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

import click

from elmo_model.text.tokenizers import TOKENIZERS
from elmo_model.training.recipe import (
    DEFAULT_SHAPE,
    OPTIMISERS,
    RECIPES,
    SCHEDULES,
    SHAPES,
    SOFTMAX_BIASES,
    Recipe,
)
from elmo_serve.commands.options import (
    Number,
    PlainText,
    device_option,
    refuse_given,
    resolve_model,
    threads_option,
)

Command = TypeVar("Command", bound=Callable[..., Any])


def _checked_shape(_context: click.Context, _option: click.Parameter, value: str | None) -> Any:
    """Return the name of a shape, or the path of a checkpoint whose shape is taken."""
    if value is not None and value not in SHAPES and not Path(value).exists():
        expected = ", ".join(SHAPES)
        raise click.BadParameter(f"{value!r} is none of {expected} and no checkpoint's path.")
    return value


_NAMES = ("modern", "reference")
_folder = click.Path(path_type=Path, file_okay=False)
_held_out = PlainText(path_type=Path, exists=True, dir_okay=False)
_existing = click.Path(path_type=Path, exists=True, dir_okay=False)
_COUNT = click.IntRange(min=1)
_POSITIVE = Number(min=0, min_open=True)
_SHARE = Number(min=0, max=1)
_PART = Number(min=0, max=1, max_open=True)  # less than all
_NOT_NEGATIVE = Number(min=0)


def _of_recipe(name: str, kind: Any, text: str) -> Callable[[Command], Command]:
    """Return an option whose default is the recipe's, which the help shows for both recipes."""
    return click.option(name, type=kind, show_default=_both(name), help=text)


def _both(name: str) -> str:
    """Return the values of an option in both recipes, as the help shows them."""
    if name == "--state":
        modern, reference = ("fresh" if RECIPES[each].fresh else "carried" for each in _NAMES)
    else:
        field = name[2:].replace("-", "_")
        modern, reference = (getattr(RECIPES[each], field) for each in _NAMES)
    other = "none" if reference is None else reference
    return str(modern) if modern == reference else f"{modern}; with reference {other}"


@click.command(context_settings={"show_default": True})
@click.argument("run", type=_folder)
@click.option(
    "--text",
    type=PlainText(),
    metavar="TEXT",
    multiple=True,
    required=True,
    help="Text: a path or a pattern in quotes; may be repeated.",
)
@click.option("--heldout", type=_held_out, help="Text on which perplexity is measured meanwhile.")
@click.option(
    "--heldout-sentences", type=_COUNT, default=2000, help="Measure on its first sentences."
)
@click.option(
    "--recipe",
    type=click.Choice(tuple(RECIPES)),
    default="modern",
    help="modern is Muon, on a GPU in bfloat16; reference is bilm-tf's Adagrad.",
)
@click.option(
    "--shape",
    callback=_checked_shape,
    metavar=f"[{'|'.join(SHAPES)}|PATH]",
    show_default=DEFAULT_SHAPE,
    help="Size of the network.",
)
@click.option(
    "--weights",
    metavar="MODEL",
    show_default="random weights",
    help="Continue from the network of a model, with a new softmax.",
)
@click.option("--cell", type=_COUNT, show_default="the shape's", help="Cells of an LSTM.")
@click.option("--projection", type=_COUNT, show_default="the shape's", help="Width of a direction.")
@click.option(
    "--vocabulary",
    type=_existing,
    help="Words to predict: one a line, most frequent first, with rows for <S>, </S> and <UNK>.",
)
@click.option(
    "--vocabulary-size",
    type=_COUNT,
    default=50_000,
    help="Words taken from the text without a file.",
)
@_of_recipe("--epochs", _POSITIVE, "Passes over the text.")
@click.option("--steps", type=_COUNT, help="Steps, instead of epochs.")
@click.option("--tokens", type=_COUNT, help="Tokens in each direction, instead of epochs.")
@_of_recipe("--rows", _COUNT, "Rows of a batch.")
@_of_recipe("--unroll", _COUNT, "Steps of truncated back-propagation.")
@click.option(
    "--softmax",
    type=click.Choice(("sampled", "full")),
    default="sampled",
    help="Softmax while training.",
)
@_of_recipe(
    "--state",
    click.Choice(("fresh", "carried")),
    "fresh: zero before every sentence; carried: never zero again, as in bilm-tf.",
)
@_of_recipe("--samples", int, "Words that the sampled softmax draws.")
@click.option(
    "--softmax-steps",
    type=click.IntRange(min=0),
    default=0,
    help="With --weights: first steps that train the softmax alone.",
)
@_of_recipe(
    "--recurrent-noise", _NOT_NEGATIVE, "Noise on the outputs that an LSTM's next step reads."
)
@_of_recipe("--dropout", _PART, "Share of values that are dropped.")
@_of_recipe(
    "--optimiser",
    click.Choice(tuple(OPTIMISERS)),
    "muon trains matrices by Muon, all other parameters by AdamW.",
)
@_of_recipe("--learning-rate", _POSITIVE, "Peak of the learning rate.")
@_of_recipe("--matrix-rate", _POSITIVE, "Peak of Muon's learning rate.")
@_of_recipe(
    "--schedule",
    click.Choice(tuple(SCHEDULES)),
    "Learning rate after the warm-up.",
)
@_of_recipe("--warmup", _SHARE, "Share of the steps in which the rate rises.")
@_of_recipe("--warmup-steps", click.IntRange(min=0), "Longest warm-up in steps.")
@_of_recipe("--decay", _SHARE, "Share of the steps in which constant-decay falls.")
@_of_recipe("--weight-decay", _NOT_NEGATIVE, "Weight decay of matrices.")
@_of_recipe("--clip-norm", _POSITIVE, "Greatest norm of the whole gradient.")
@_of_recipe("--average", _PART, "Decay of the weights' moving average; 0 for none.")
@_of_recipe(
    "--softmax-bias",
    click.Choice(tuple(SOFTMAX_BIASES)),
    "What the biases of the softmax start from: the logarithms of the words' shares of the text.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    default=1,
    help="Seed of weights, order of the text, samples and dropout.",
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
@click.option(
    "--precision",
    type=click.Choice(("float32", "bfloat16")),
    show_default="bfloat16 for modern on a GPU, else float32",
    help="Precision of products.",
)
@device_option("auto, cpu or cuda.")
@threads_option
@click.option(
    "--minutes",
    type=_NOT_NEGATIVE,
    help="Stop after this number of minutes, saved; the same command continues.",
)
@click.option("--log-every", type=_COUNT, default=100, help="Steps between two lines of the log.")
@click.option(
    "--measure-every", type=_COUNT, default=5000, help="Steps between two held-out perplexities."
)
@click.option("--save-every", type=_COUNT, default=5000, help="Steps between two snapshots.")
@click.option(
    "--save-minutes", type=_NOT_NEGATIVE, default=5.0, help="Longest time between two snapshots."
)
@click.pass_context
def train(ctx: click.Context, /, **values: object) -> None:
    """Pretrain a biLM on text, in the folder RUN.

    The same command continues a run that was stopped. Ctrl-C, SIGTERM, a lost terminal and
    --minutes stop it after saving: RUN then holds model.safetensors and the published pair.

    \b
    Examples:
      $ elmo train runs/tiny --text 'corpus/*.txt' --heldout heldout.txt --shape tiny
    """
    if values["steps"] or values["tokens"]:
        refuse_given("has no effect with --steps and --tokens: leave it out", "epochs")
    if values["vocabulary"] is not None:
        refuse_given("has no effect with --vocabulary: leave it out", "vocabulary_size")
    from elmo_model.training import command

    if values["weights"] is not None:
        values["weights"] = resolve_model(str(values["weights"]))
    given = {key: value for key, value in values.items() if value is not None}
    if "state" in given:
        given["fresh"] = given.pop("state") == "fresh"
    names = {field.name for field in fields(Recipe)}
    changed: dict[str, Any] = {key: given.pop(key) for key in names & given.keys()}
    recipe = replace(RECIPES[str(given.pop("recipe"))], **changed)
    ctx.exit(command.train(command.TrainOptions(**given, recipe=recipe)))  # type: ignore[arg-type]
