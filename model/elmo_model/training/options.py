"""The options of `elmo train`, checked, and the plan of a run that follows from them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from elmo_model import checkpoints
from elmo_model.checkpoints.bilm_layout import FORGET_BIAS
from elmo_model.errors import OptionError, shown
from elmo_model.models.opening import open_model
from elmo_model.network.config import CharCNNConfig, ElmoConfig, LSTMConfig
from elmo_model.network.description import Description
from elmo_model.network.elmo import ElmoNetwork
from elmo_model.text.alphabets import Utf8Alphabet
from elmo_model.training.recipe import DEFAULT_SHAPE, RECIPES, SHAPES, Recipe, Shape
from elmo_model.training.run_folder import Plan


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """The options of `elmo train`; None leaves the choice to the device or the text.

    `threads` are torch's; without them a new run tries one and all, and a run that goes on keeps
    its own. Intervals (`..._every`) are in steps; `save_minutes` is the longest time between two
    snapshots. `minutes` ends this call early, saved. `tokenizer` and `language` are stated in the
    model and split nothing; without them a run has those of its weights, or moses and en.
    """

    run: Path
    text: tuple[str, ...]
    heldout: Path | None = None
    heldout_sentences: int = 2000
    recipe: Recipe = RECIPES["modern"]
    shape: str | None = None
    weights: str | None = None
    cell: int | None = None
    projection: int | None = None
    vocabulary: Path | None = None
    vocabulary_size: int = 50_000
    steps: int | None = None
    tokens: int | None = None
    softmax: str = "sampled"
    seed: int = 1
    name: str | None = None
    precision: str | None = None
    device: str = "auto"
    threads: int | None = None
    minutes: float | None = None
    log_every: int = 100
    measure_every: int = 5000
    save_every: int = 5000
    save_minutes: float = 5.0
    tokenizer: str | None = None
    language: str | None = None

    def check(self) -> None:
        """Check the options together. Raises OptionError, which names them."""
        if self.device not in ("auto", "cpu", "cuda"):
            raise OptionError(f"--device is {self.device!r}, expected auto, cpu or cuda")
        if self.device == "cuda" and not torch.cuda.is_available():
            raise OptionError("--device is cuda, and there is none; expected cpu")
        for name, value, other, excluded in (
            ("--steps", self.steps, "--tokens", self.tokens),
            ("--weights", self.weights, "--shape", self.shape),
            ("--weights", self.weights, "--cell", self.cell),
            ("--weights", self.weights, "--projection", self.projection),
        ):
            if value and excluded:
                raise OptionError(f"{name} and {other}: expected only one of them")
        if self.weights is None and self.recipe.softmax_steps:
            raise OptionError("--softmax-steps without --weights, expected both or neither")

    def chosen_device(self) -> str:
        """Return "cpu" or "cuda"."""
        found = "cuda" if torch.cuda.is_available() else "cpu"
        return found if self.device == "auto" else self.device

    def network(self) -> ElmoNetwork | None:
        """Return the network that `--weights` names, None without it.

        Raises CheckpointError where there is none, and OptionError for one that a run cannot
        train or export.
        """
        if self.weights is None:
            return None
        return _of_a_run("--weights", self.weights, open_model(self.weights))

    def config(self, network: ElmoNetwork | None = None) -> ElmoConfig:
        """Return the shape of the network to train: that of `network`, or that of the options.

        Raises CheckpointError for a `--shape` that is no checkpoint, OptionError for one that a
        run cannot train or export, and ConfigError for sizes that contradict each other.
        """
        if network is not None:
            return network.config
        shape = self.shape or DEFAULT_SHAPE
        if shape in SHAPES:
            config = config_of(SHAPES[shape])
        else:
            config = _of_a_run("--shape", shape, checkpoints.load(shape)).config
        cell, projection = self.cell or config.lstm.cell, self.projection or config.lstm.projection
        return replace(config, lstm=replace(config.lstm, cell=cell, projection=projection))

    def plan(
        self,
        shards: Sequence[Path],
        pairs: int,
        words: int,
        config: ElmoConfig,
        network: ElmoNetwork | None = None,
    ) -> Plan:
        """Return the plan of a run on the text of `shards`.

        An epoch of them has `pairs` predictions a direction; the vocabulary has `words` words.
        `config` and `network` are those of the functions above. Raises OptionError for a sample
        that is larger than the vocabulary.
        """
        recipe = self._recipe(words)
        if self.tokens is not None:
            steps = max(1, self.tokens // recipe.tokens_per_step)
        else:
            steps = self.steps or recipe.steps_of(pairs)
        stated = Description("moses", "en") if network is None else network.origin.description
        mixed = recipe.mixed and self.chosen_device() == "cuda"
        return Plan(
            name=self.name or self.run.resolve().name,
            config=config,
            recipe=recipe,
            words=words,
            steps=steps,
            seed=self.seed,
            precision=self.precision or ("bfloat16" if mixed else "float32"),
            text=tuple((path.name, path.stat().st_size) for path in shards),
            weights=None if network is None else network.origin.revision,
            tokenizer=self.tokenizer or stated.tokenizer or "moses",
            language=self.language or stated.language or "en",
        )

    def _recipe(self, words: int) -> Recipe:
        recipe = self.recipe
        if self.softmax == "full":
            return replace(recipe, samples=0)
        if not 0 < recipe.samples < words:
            raise OptionError(
                f"--samples is {recipe.samples}, expected 1 or more and fewer than the {words} "
                f"words of the vocabulary, or --softmax full"
            )
        return recipe


def config_of(shape: Shape) -> ElmoConfig:
    """Return the configuration of a network of a shape that reads UTF-8 characters."""
    return ElmoConfig(
        CharCNNConfig(Utf8Alphabet.size, 16, shape.filters, shape.highways, "relu", 50),
        LSTMConfig(2, shape.cell, shape.projection, 3.0, 3.0, skip=True),
    )


def _of_a_run(option: str, given: str, elmo: ElmoNetwork) -> ElmoNetwork:
    """Return `elmo`, the network of an option. Raises OptionError if no run can export the like.

    A run reads UTF-8 characters, learns no alignment, and exports to the published layout.
    """
    if elmo.config.char_cnn is None or not isinstance(elmo.alphabet, Utf8Alphabet):
        fault = "has a lexicon of its own"
    elif elmo.config.aligned:
        fault = "is aligned to another language"
    elif elmo.config.lstm.forget_bias != FORGET_BIAS:
        fault = f"has lstm.forget_bias {elmo.config.lstm.forget_bias}"
    else:
        return elmo
    raise OptionError(
        f"{option} is {shown(given)}, which {fault}; expected a network that reads UTF-8 "
        f"characters alone, without an alignment, with lstm.forget_bias {FORGET_BIAS}"
    )
