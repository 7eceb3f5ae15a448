"""One fit: a mixture and a linear head trained until the held-out part gets no better."""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from elmo_model.errors import OptionError
from elmo_model.network.scalar_mix import ScalarMix
from elmo_model.tasks.examples import FitError
from elmo_model.tasks.features import Features
from elmo_model.tasks.scores import Scores, best_legal, is_bio, legal_transitions, score, span_f1
from elmo_model.validation import checked_dataclass, rule


class MixtureHead(nn.Module):
    """gamma * sum_j softmax(s)_j h_j, then dropout, then one linear map to the classes.

    A pair of vectors u, v becomes (u, v, |u - v|, u * v) before the linear map (Conneau et al.
    2017, InferSent). Layers are normalised before, where the task has layer norm.
    """

    def __init__(
        self,
        layers: int,
        dimension: int,
        classes: int,
        *,
        places: int = 1,
        dropout: float = 0.0,
        gamma: float = 1.0,
    ) -> None:
        """`gamma` is the initial scale: one over the deviation of the vectors converges fast."""
        super().__init__()
        self.mix = ScalarMix(layers)
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(dimension * (1 if places == 1 else 4), classes)
        with torch.no_grad():
            self.mix.gamma.fill_(gamma)
            self.linear.weight.zero_()
            self.linear.bias.zero_()

    def forward(self, layers: Tensor) -> Tensor:
        """Map (L + 1, n, places, 2P) to the logits (n, classes)."""
        count, rows, places, width = layers.shape
        mixed = self.mix(layers.reshape(count, rows * places, width)).view(rows, places, width)
        logits: Tensor = self.linear(self.dropout(joined(mixed)))
        return logits


def joined(mixed: Tensor) -> Tensor:
    """Map (n, 1, 2P) to (n, 2P), and pairs (n, 2, 2P) to (n, 8P)."""
    if mixed.shape[1] == 1:
        return mixed[:, 0]
    first, second = mixed[:, 0], mixed[:, 1]
    return torch.cat((first, second, (first - second).abs(), first * second), dim=1)


ROUND_STEPS = 100
"""Least number of steps between two scores on the validation part, and so to the decay of the rate.
Fewer stop fits of some hundred examples before they have learned anything."""

EVALUATED_ROWS = 4096
"""Examples that are scored at once: bounds memory, does not change the result."""


_Count = Annotated[int, Field(strict=True, ge=1), rule("an integer of 1 or more")]


class FitOptionsError(OptionError, FitError):
    """An option of a fit out of its range; the message names it, its value and the range."""


@checked_dataclass("", FitOptionsError)
class FitOptions:
    """Options of a fit.

    `validation` is the part of the training sentences, from 0 to 1, that decides when to stop.
    `l2_weights` is the paper's lambda on s, `dropout` acts on the mixed vectors. The
    validation part is scored after each round: one pass over the examples, and at least ROUND_STEPS
    steps. A fit ends after `patience` rounds without a better score, or after `rounds`.
    `learning_rate` falls by a factor of `decay` a round. Raises FitOptionsError for a value out of
    range.
    """

    validation: Annotated[float, Field(gt=0, lt=1), rule("above 0 and below 1")] = 0.1
    seeds: _Count = 3
    layer_norm: bool = False
    l2_weights: Annotated[float, Field(ge=0, lt=math.inf), rule("0 or more, and finite")] = 0.001
    dropout: Annotated[float, Field(ge=0, lt=1), rule("from 0 to below 1")] = 0.0
    rounds: _Count = 20
    patience: _Count = 4
    learning_rate: Annotated[float, Field(gt=0, lt=math.inf), rule("above 0, and finite")] = 0.01
    decay: Annotated[float, Field(gt=0, le=1), rule("above 0 and at most 1")] = 0.8
    batch: _Count = 512


@dataclass(frozen=True, slots=True)
class Fitted:
    """A trained mixture and head: raw weights s, gamma, and the linear map with its labels."""

    classes: tuple[str, ...]
    head: MixtureHead
    validation: Scores
    rounds: int

    @property
    def weights(self) -> tuple[float, ...]:
        """The raw scalars s, before the softmax."""
        return tuple(self.head.mix.weights.tolist())

    @property
    def gamma(self) -> float:
        """The scale of the mixture."""
        return self.head.mix.gamma.item()

    def predict(self, features: Features) -> list[str]:
        """Return the label of each example; BIO labels form a legal sequence in each sentence."""
        return _predict(self.head, self.classes, features)

    def score(self, features: Features) -> Scores:
        """Score the predictions by the labels of the examples."""
        return _score(self.head, self.classes, features)


def fit_once(train: Features, validation: Features, options: FitOptions, seed: int) -> Fitted:
    """Train mixture and head on `train` by AdamW; stop early by the score on `validation`.

    Labels of `validation` that `train` lacks count as errors. The result depends on the seed, the
    data and the options alone. A round after which a number is not finite ends the fit. Raises
    FitError where that is the first one.
    """
    classes = train.examples.classes
    numbers = {label: number for number, label in enumerate(classes)}
    labels = torch.tensor([numbers[label] for label in train.examples.labels])
    best: Fitted | None = None
    with torch.random.fork_rng(devices=[]):
        head = MixtureHead(
            train.layers,
            train.dimension,
            len(classes),
            places=train.index.shape[1],
            dropout=options.dropout,
            gamma=_initial_gamma(train),
        )
        torch.manual_seed(seed)
        # A few scalars decide over all features: they are learned faster.
        groups: list[dict[str, Any]] = [
            {"params": head.linear.parameters()},
            {"params": head.mix.parameters(), "lr": 5 * options.learning_rate},
        ]
        optimiser = torch.optim.AdamW(groups, lr=options.learning_rate, weight_decay=0.0)
        rate = torch.optim.lr_scheduler.ExponentialLR(optimiser, options.decay)
        for number in range(1, options.rounds + 1):
            _train_round(head, train, labels, options, optimiser)
            if not all(each.isfinite().all() for each in head.parameters()):
                break
            rate.step()
            scores = _score(head, classes, validation)
            if best is None or scores.main > best.validation.main:
                best = Fitted(classes, copy.deepcopy(head), scores, number)
            elif number - best.rounds >= options.patience:
                break
    if best is None:
        raise FitError(
            "the fit learned numbers that are not finite in round 1: its vectors are not finite, "
            "or too large"
        )
    return best


def _train_round(
    head: MixtureHead,
    train: Features,
    labels: Tensor,
    options: FitOptions,
    optimiser: torch.optim.Optimizer,
) -> None:
    head.train()
    a_pass = math.ceil(len(train) / options.batch)
    passes = math.ceil(ROUND_STEPS / a_pass)
    order = torch.cat([torch.randperm(len(train)) for _ in range(passes)])
    for chosen in torch.split(order, options.batch):
        rows = chosen.numpy()
        logits = head(train.rows(rows))
        # The penalty draws the weights to the average of all layers (Peters et al. 2018, 3.3).
        penalty = options.l2_weights * head.mix.weights.square().sum()
        loss = functional.cross_entropy(logits, labels[chosen]) + penalty
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    head.eval()


def _predict(head: MixtureHead, classes: Sequence[str], features: Features) -> list[str]:
    with torch.inference_mode():
        blocks = [
            head(features.rows(rows))
            for start in range(0, len(features), EVALUATED_ROWS)
            for rows in [slice(start, start + EVALUATED_ROWS)]
        ]
    logits = torch.cat(blocks)
    if not is_bio(classes):
        return [classes[number] for number in logits.argmax(dim=1).tolist()]
    scores = functional.log_softmax(logits, dim=1).numpy()
    groups = features.examples.groups
    transitions = legal_transitions(classes)
    labels: list[str] = []
    for _, rows in groupby(range(len(groups)), key=lambda row: groups[row]):
        labels += (classes[number] for number in best_legal(scores[list(rows)], transitions))
    return labels


def _score(head: MixtureHead, classes: Sequence[str], features: Features) -> Scores:
    labels = features.examples.labels
    found = _predict(head, classes, features)
    scores = score(labels, found)
    if not is_bio(classes):
        return scores
    by_sentence = features.examples.by_sentence
    return replace(scores, span_f1=span_f1(by_sentence(labels), by_sentence(found)))


def _initial_gamma(features: Features) -> float:
    """Return the scale that gives the average of the layers a standard deviation of 1.

    The deviation is that of at most 4,096 examples.
    """
    deviation = float(features.rows(slice(0, EVALUATED_ROWS)).mean(dim=0).std())
    return 1 / deviation if math.isfinite(deviation) and deviation > 1e-6 else 1.0
