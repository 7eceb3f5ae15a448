"""The options of a run of `elmo train`, checked, and the network that they ask for."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import torch
from pydantic import Field

from elmo_model import checkpoints
from elmo_model.checkpoints.bilm_layout import FORGET_BIAS
from elmo_model.errors import OptionError, shown
from elmo_model.models.opening import open_model
from elmo_model.network.config import CharCNNConfig, ElmoConfig, LSTMConfig
from elmo_model.network.elmo import ElmoNetwork
from elmo_model.text.alphabets import Utf8Alphabet
from elmo_model.validation import Count, Flag, Rows, Size, checked_dataclass

_Positive = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
_NotNegative = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]
_Share = Annotated[float, Field(strict=True, ge=0, le=1)]
_Part = Annotated[float, Field(strict=True, ge=0, lt=1)]  # less than all
_Seed = Annotated[int, Field(strict=True, ge=0, lt=2**63)]


@checked_dataclass("", OptionError)
class Options:
    """All options of a run, by default of the recipe `modern`; None leaves the choice to the run.

    Place and text:

    - `shape` is the name of one, or the path of a checkpoint whose shape is taken. `weights` is the
      model whose network is trained further; `shape`, `cell` and `projection` are its own then.
    - `vocabulary` is a file of words to predict; without it they are the `vocabulary_size` most
      frequent ones.
    - `tokenizer` and `language` are stated in the model and split nothing; without them a run has
      those of its weights, or moses and en. An empty `name` is that of the folder.
    - `threads` are torch's; without them a new run tries one and all, and a run that goes on keeps
      its own.
    - `minutes` ends this call early, saved. Intervals (`..._every`) are in steps; `save_minutes` is
      the longest time between two snapshots.

    The recipe, which decides how the weights change:

    - `rows` counts the rows of a batch, `unroll` the steps of truncated back-propagation. A step
      reads rows x unroll tokens in each direction. `steps`, or else `tokens` in each direction, or
      else `epochs` say how many there are.
    - `scale_by_unroll` takes the gradient of loss x unroll; `clip_norm` bounds its norm afterwards.
    - `learning_rate` is the peak rate. With "muon" it is that of the parameters that AdamW trains,
      and `matrix_rate` that of the matrices (`elmo_model.training.optimiser`).
    - `warmup` is a share of all steps, cut to `warmup_steps` where that is given. `decay` is the
      share of all steps in which "constant-decay" falls, to the share `floor` of the learning rate.
    - `average` is the decay per step of the moving average of the weights, 0 for none. The average
      is the model that is measured and exported.
    - `softmax_bias` is the start of the biases of the softmax: "zero", as in bilm-tf, or the
      logarithm of each word's share of the text, which Adam takes thousands of steps to learn.
    - `samples` counts the words that the sampled softmax draws; 0 is the softmax over all words.
    - `softmax_steps` first steps train the softmax alone, so that a random softmax does not damage
      trained weights (Kumar et al. 2022, for classifiers). They have a learning-rate schedule of
      their own; the main one starts after them.
    - `recurrent_noise` is the standard deviation of the noise that is added to the output of every
      LSTM where the next step reads it; 0 for none. Without it Muon trains networks that amplify
      rounding from token to token (`benchmarks/evaluation/stability.py`).
    - `precision` is that of products; "auto" is bfloat16 on a GPU, else float32.
    - `fresh` reads every sentence from zero state, as the server does. Without it, rows carry their
      state from sentence to sentence for ever, as in bilm-tf: such a network has never seen a zero
      state, and its vectors are poor from one until the training is long.
    """

    run: Path
    text: tuple[str, ...]
    heldout: Path | None = None
    heldout_sentences: Rows = 2000
    shape: str | None = None
    weights: str | None = None
    cell: Size | None = None
    projection: Size | None = None
    vocabulary: Path | None = None
    vocabulary_size: Rows = 50_000
    name: str = ""
    tokenizer: str | None = None
    language: str | None = None
    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: Size | None = None
    minutes: _NotNegative | None = None
    log_every: Rows = 100
    measure_every: Rows = 5000
    save_every: Rows = 5000
    save_minutes: _NotNegative = 5.0

    steps: Rows | None = None
    tokens: Annotated[int, Field(strict=True, ge=1)] | None = None
    epochs: _Positive = 10.0
    rows: Size = 128
    unroll: Size = 20
    seed: _Seed = 1
    optimiser: Literal["muon", "adagrad"] = "muon"
    learning_rate: _Positive = 5e-3
    matrix_rate: _Positive = 0.006
    schedule: Literal["constant", "constant-decay"] = "constant-decay"
    warmup: _Share = 0.02
    warmup_steps: Count | None = 1000
    decay: _Share = 0.2
    floor: _Share = 0.01
    weight_decay: _NotNegative = 0.01
    clip_norm: _Positive = 1.0
    scale_by_unroll: Flag = False
    average: _Part = 0.999
    softmax_bias: Literal["zero", "unigram"] = "unigram"
    softmax_steps: Count = 0
    samples: Count = 8192
    recurrent_noise: _NotNegative = 0.2
    dropout: _Part = 0.1
    fresh: Flag = True
    precision: Literal["auto", "float32", "bfloat16"] = "auto"

    def __post_init__(self) -> None:
        for one, other in (
            ("steps", "tokens"),
            ("weights", "shape"),
            ("weights", "cell"),
            ("weights", "projection"),
        ):
            if getattr(self, one) is not None and getattr(self, other) is not None:
                raise OptionError(f"{one} and {other}: expected only one of them")
        if self.weights is None and self.softmax_steps:
            raise OptionError("softmax_steps without weights: expected both or neither")

    @property
    def tokens_per_step(self) -> int:
        """The tokens that a step reads in each direction."""
        return self.rows * self.unroll

    def steps_of(self, pairs: int) -> int:
        """Return the steps of a run on text with `pairs` predictions a direction: full batches."""
        if self.steps is not None:
            return self.steps
        return max(1, (self.tokens or int(self.epochs * pairs)) // self.tokens_per_step)

    def chosen_device(self) -> str:
        """Return "cpu" or "cuda". Raises OptionError where there is no CUDA device."""
        has_cuda = torch.cuda.is_available()
        if self.device == "cuda" and not has_cuda:
            raise OptionError("device is cuda, and there is none; expected cpu")
        return ("cuda" if has_cuda else "cpu") if self.device == "auto" else self.device

    def network(self) -> ElmoNetwork | None:
        """Return the network that `weights` names, None without it.

        Raises CheckpointError where there is none, and OptionError for one that a run cannot
        train or export.
        """
        if self.weights is None:
            return None
        return _of_a_run("weights", self.weights, open_model(self.weights))

    def config(self, network: ElmoNetwork | None = None) -> ElmoConfig:
        """Return the shape of the network to train: that of `network`, or that of the options.

        Raises CheckpointError for a `shape` that is no checkpoint, OptionError for one that a
        run cannot train or export, and ConfigError for sizes that contradict each other.
        """
        if network is not None:
            return network.config
        shape = self.shape or DEFAULT_SHAPE
        if shape in SHAPES:
            config = config_of(SHAPES[shape])
        elif Path(shape).exists():
            config = _of_a_run("shape", shape, checkpoints.load(shape)).config
        else:
            names = ", ".join(SHAPES)
            raise OptionError(f"shape is {shown(shape)}, expected {names} or a checkpoint's path")
        cell, projection = self.cell or config.lstm.cell, self.projection or config.lstm.projection
        return replace(config, lstm=replace(config.lstm, cell=cell, projection=projection))

    def refuse_samples(self, words: int) -> None:
        """Raise OptionError where a vocabulary of `words` words is too small for the samples."""
        if self.samples >= words:
            raise OptionError(
                f"samples is {self.samples}, expected fewer than the {words} words of the "
                f"vocabulary, or 0 for the softmax over all of them"
            )


REFERENCE: Final[dict[str, Any]] = {
    "optimiser": "adagrad",
    "learning_rate": 0.2,
    "schedule": "constant",
    "warmup": 0.0,
    "warmup_steps": None,
    "floor": 0.0,
    "weight_decay": 0.0,
    "clip_norm": 10.0,
    "scale_by_unroll": True,
    "average": 0.0,
    "softmax_bias": "zero",
    "recurrent_noise": 0.0,
    "fresh": False,
    "precision": "float32",
}
"""The recipe `reference`: bilm-tf `bin/train_elmo.py` and `training.py`."""


_FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
_FEWER = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 128), (6, 128))


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes in which networks differ; `filters` are pairs of width and number."""

    cell: int
    projection: int
    highways: int
    filters: tuple[tuple[int, int], ...] = _FILTERS


SHAPES = {
    "tiny": Shape(256, 64, 1, ((1, 16), (2, 16), (3, 32), (4, 64))),
    "half": Shape(768, 192, 1, _FEWER),
    "small": Shape(1024, 128, 1),
    "medium": Shape(2048, 256, 1),
    "original": Shape(4096, 512, 2),
}
DEFAULT_SHAPE = "small"
"""Shapes by name: `tiny` is for tests, `half` for a CPU, the others are published."""


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
