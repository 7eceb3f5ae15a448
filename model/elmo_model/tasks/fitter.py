"""One fit: a mixture and a linear head trained until the held-out part gets no better."""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from elmo_model.errors import OptionError
from elmo_model.network.scalar_mix import ScalarMix
from elmo_model.tasks.examples import FitError
from elmo_model.tasks.features import Features
from elmo_model.tasks.scores import Measure, Score
from elmo_model.tasks.spans import best_legal, legal_transitions
from elmo_model.validation import checked_dataclass, rule

ROUND_STEPS: Final = 100
"""Least number of steps between two scores on the validation part, and so to the decay of the rate.
Fewer stop fits of some hundred examples before they have learned anything."""

ROUNDS: Final = 20
"""Most rounds of a fit. Most fits end sooner, by `PATIENCE`."""

PATIENCE: Final = 4
"""Rounds without a better score on the validation part after which a fit ends."""

BATCH: Final = 512
"""Examples of a step."""

LEARNING_RATE: Final = 0.01
"""Of the head in the first round. The few scalars of the mix decide over all features: they are
learned five times as fast."""

DECAY: Final = 0.8
"""Factor of the learning rate after each round."""

L2_WEIGHTS: Final = 0.001
"""The paper's lambda on s, which draws the weights to the average of all layers (Peters et al.
2018, 3.3)."""

EVALUATED_ROWS: Final = 4096
"""Examples that are scored at once: bounds memory, does not change the result."""


class MixtureHead(nn.Module):
    """gamma * sum_j softmax(s)_j h_j, then dropout, then one linear map to the classes.

    Layers are normalised before, where the task has layer norm.
    """

    def __init__(
        self,
        layers: int,
        dimension: int,
        classes: int,
        *,
        dropout: float = 0.0,
        gamma: float = 1.0,
    ) -> None:
        """`gamma` is the initial scale: one over the deviation of the vectors converges fast."""
        super().__init__()
        self.mix = ScalarMix(layers)
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(dimension, classes)
        with torch.no_grad():
            self.mix.gamma.fill_(gamma)
            self.linear.weight.zero_()
            self.linear.bias.zero_()

    def forward(self, layers: Tensor) -> Tensor:
        """Map (L + 1, n, 2P) to the logits (n, classes)."""
        logits: Tensor = self.linear(self.dropout(self.mix(layers)))
        return logits


_Count = Annotated[int, Field(strict=True, ge=1), rule("an integer of 1 or more")]


class FitOptionsError(OptionError, FitError):
    """An option of a fit out of its range; the message names it, its value and the range."""


@checked_dataclass("", FitOptionsError)
class FitOptions:
    """Options of a fit.

    `validation` is the part of the training sentences, from 0 to 1, that decides when to stop.
    `dropout` acts on the mixed vectors. Raises FitOptionsError for a value out of range.
    """

    validation: Annotated[float, Field(gt=0, lt=1), rule("above 0 and below 1")] = 0.1
    seeds: _Count = 3
    layer_norm: bool = False
    dropout: Annotated[float, Field(ge=0, lt=1), rule("from 0 to below 1")] = 0.0


@dataclass(frozen=True, slots=True)
class Fitted:
    """A trained mixture and head: raw weights s, gamma, and the linear map with its labels."""

    classes: tuple[str, ...]
    head: MixtureHead
    validation: Score
    rounds: int

    @property
    def weights(self) -> tuple[float, ...]:
        """The raw scalars s, before the softmax."""
        return tuple(self.head.mix.weights.tolist())

    @property
    def gamma(self) -> float:
        """The scale of the mixture."""
        return self.head.mix.gamma.item()

    def score(self, features: Features, measure: Measure) -> Score:
        """Score the predictions by the labels of the examples."""
        return _score(self.head, self.classes, features, measure)


def fit_once(
    train: Features, validation: Features, options: FitOptions, measure: Measure, seed: int
) -> Fitted:
    """Train mixture and head on `train` by AdamW; stop early by the score on `validation`.

    The validation part is scored after each round: one pass over the examples, and at least
    ROUND_STEPS steps. Labels of `validation` that `train` lacks count as errors. The result depends
    on the seed, the data and the options alone. A round after which a number is not finite ends the
    fit. Raises FitError where that is the first one.
    """
    classes = train.examples.classes
    numbers = {label: number for number, label in enumerate(classes)}
    labels = torch.tensor([numbers[label] for each in train.examples.labels for label in each])
    best: Fitted | None = None
    with torch.random.fork_rng(devices=[]):
        head = MixtureHead(
            train.layers,
            train.dimension,
            len(classes),
            dropout=options.dropout,
            gamma=_initial_gamma(train),
        )
        torch.manual_seed(seed)
        groups: list[dict[str, Any]] = [
            {"params": head.linear.parameters()},
            {"params": head.mix.parameters(), "lr": 5 * LEARNING_RATE},
        ]
        optimiser = torch.optim.AdamW(groups, lr=LEARNING_RATE, weight_decay=0.0)
        rate = torch.optim.lr_scheduler.ExponentialLR(optimiser, DECAY)
        for number in range(1, ROUNDS + 1):
            _train_round(head, train, labels, optimiser)
            if not all(each.isfinite().all() for each in head.parameters()):
                break
            rate.step()
            score = _score(head, classes, validation, measure)
            if best is None or score.value > best.validation.value:
                best = Fitted(classes, copy.deepcopy(head), score, number)
            elif number - best.rounds >= PATIENCE:
                break
    if best is None:
        raise FitError(
            "the fit learned numbers that are not finite in round 1: its vectors are not finite, "
            "or too large"
        )
    return best


def _train_round(
    head: MixtureHead, train: Features, labels: Tensor, optimiser: torch.optim.Optimizer
) -> None:
    head.train()
    passes = math.ceil(ROUND_STEPS / math.ceil(len(train) / BATCH))
    order = torch.cat([torch.randperm(len(train)) for _ in range(passes)])
    for chosen in torch.split(order, BATCH):
        penalty = L2_WEIGHTS * head.mix.weights.square().sum()
        logits = head(train.rows(chosen.numpy()))
        loss = functional.cross_entropy(logits, labels[chosen]) + penalty
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    head.eval()


def predicted(head: MixtureHead, classes: Sequence[str], features: Features) -> list[list[str]]:
    """Return the labels of each sentence; those of spans form a legal sequence."""
    with torch.inference_mode():
        blocks = [
            head(features.rows(slice(start, start + EVALUATED_ROWS)))
            for start in range(0, len(features), EVALUATED_ROWS)
        ]
    sizes = [len(labels) for labels in features.examples.labels]
    logits = torch.split(torch.cat(blocks), sizes)
    if not features.examples.are_spans:
        return [[classes[n] for n in rows.argmax(dim=1).tolist()] for rows in logits]
    transitions = legal_transitions(classes)
    return [
        [classes[n] for n in best_legal(functional.log_softmax(rows, dim=1).numpy(), transitions)]
        if len(rows)
        else []
        for rows in logits
    ]


def _score(
    head: MixtureHead, classes: Sequence[str], features: Features, measure: Measure
) -> Score:
    wanted = features.examples.labels
    return Score.of(measure, features.numbers, wanted, predicted(head, classes, features))


def _initial_gamma(features: Features) -> float:
    """Return the scale that gives the average of the layers a standard deviation of 1.

    The deviation is that of at most 4,096 examples.
    """
    deviation = float(features.rows(slice(0, EVALUATED_ROWS)).mean(dim=0).std())
    return 1 / deviation if math.isfinite(deviation) and deviation > 1e-6 else 1.0
