"""Training of the tagger of the study: early stopping by the development part."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from benchmarks.study.tagger import Batch, Place, Tagger
from elmo_model.tasks.fitter import initial_gamma
from elmo_model.tasks.scores import Scores, is_bio, score, span_f1


@dataclass(frozen=True, slots=True)
class TaggerOptions:
    """Options of a tagger; the comparison of places is fair because they are the same for all.

    `rounds` is the most passes over the training part; a training ends after `patience` passes
    without a better score on the development part. `rows` are sentences in a batch.
    """

    hidden: int = 100
    dropout: float = 0.5
    rounds: int = 20
    patience: int = 4
    learning_rate: float = 0.003
    rows: int = 32
    l2_weights: float = 0.001


@dataclass(frozen=True, slots=True)
class Tagged:
    """S sentences: words' vectors (n, W), layers (L + 1, n, 2P) and labels, each at least one."""

    static: Sequence[Tensor]
    layers: Sequence[Tensor]
    labels: Sequence[Sequence[str]]

    def batches(self, classes: Sequence[str], rows: int) -> list[Batch]:
        """Return batches of sentences of similar length, the shortest first.

        A label that `classes` lacks becomes class 0; `score` compares the labels themselves.
        """
        numbers = {label: number for number, label in enumerate(classes)}
        order = self.order()
        return [
            Batch(
                pad_sequence([self.static[i] for i in chosen], batch_first=True),
                pad_sequence([self.layers[i].transpose(0, 1) for i in chosen])
                .permute(2, 1, 0, 3)
                .contiguous(),
                pad_sequence(
                    [torch.tensor([numbers.get(x, 0) for x in self.labels[i]]) for i in chosen],
                    batch_first=True,
                ),
                torch.tensor([len(self.labels[i]) for i in chosen]),
            )
            for start in range(0, len(order), rows)
            for chosen in [order[start : start + rows]]
        ]

    def order(self) -> list[int]:
        """Return the numbers of the sentences, the shortest first."""
        return sorted(range(len(self.labels)), key=lambda number: len(self.labels[number]))


@dataclass(frozen=True, slots=True)
class Trained:
    """Scores of a trained tagger, and the mixture of each place: normalised weights and gamma."""

    development: Scores
    test: Scores
    rounds: int
    weights: dict[str, tuple[float, ...]]
    gammas: dict[str, float]


def train_tagger(
    place: Place,
    train: Tagged,
    development: Tagged,
    test: Tagged,
    options: TaggerOptions,
    seed: int,
) -> Trained:
    """Train a tagger from a seed and score the pass that is best on the development part."""
    classes = tuple(sorted({label for labels in train.labels for label in labels}))
    batches = train.batches(classes, options.rows)
    held = development.batches(classes, options.rows)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        tagger = Tagger(
            place,
            classes,
            static=train.static[0].shape[1],
            layers=len(train.layers[0]),
            dimension=train.layers[0].shape[2],
            hidden=options.hidden,
            dropout=options.dropout,
            gamma=initial_gamma(_deviation(batches[len(batches) // 2])),
        )
        optimiser = _optimiser(tagger, options)
        best, best_round = copy.deepcopy(tagger), 0
        best_scores: Scores | None = None
        for number in range(1, options.rounds + 1):
            _train_round(tagger, batches, optimiser, options)
            scores = _score(tagger, held, development, classes)
            if best_scores is None or _key(scores) > _key(best_scores):
                best, best_scores, best_round = copy.deepcopy(tagger), scores, number
            elif number - best_round >= options.patience:
                break
    assert best_scores is not None  # there is at least one round
    found = _score(best, test.batches(classes, options.rows), test, classes)
    weights = {
        name: tuple(mixture.weights.softmax(0).tolist()) for name, mixture in best.mixtures.items()
    }
    gammas = {name: mixture.gamma.item() for name, mixture in best.mixtures.items()}
    return Trained(best_scores, found, best_round, weights, gammas)


def _optimiser(tagger: Tagger, options: TaggerOptions) -> torch.optim.Optimizer:
    mixed = [each for mixture in tagger.mixtures.values() for each in mixture.parameters()]
    known = {id(each) for each in mixed}
    rest = [each for each in tagger.parameters() if id(each) not in known]
    # A few scalars decide over all features: they are learned faster, as in `elmo fit`.
    groups: list[dict[str, Any]] = [
        {"params": rest},
        {"params": mixed, "lr": 5 * options.learning_rate},
    ]
    return torch.optim.Adam([group for group in groups if group["params"]], options.learning_rate)


def _train_round(
    tagger: Tagger,
    batches: Sequence[Batch],
    optimiser: torch.optim.Optimizer,
    options: TaggerOptions,
) -> None:
    tagger.train()
    for number in torch.randperm(len(batches)).tolist():
        loss = tagger.loss(batches[number], options.l2_weights)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(tagger.parameters(), 5.0)
        optimiser.step()
    tagger.eval()


def _score(
    tagger: Tagger, batches: Sequence[Batch], part: Tagged, classes: Sequence[str]
) -> Scores:
    tagger.eval()
    rows = [
        [classes[number] for number in row] for batch in batches for row in tagger.predict(batch)
    ]
    wanted = [part.labels[number] for number in part.order()]
    flat = score([x for row in wanted for x in row], [x for row in rows for x in row])
    if not is_bio(classes):
        return flat
    return Scores(flat.accuracy, flat.macro_f1, flat.micro_f1, span_f1(wanted, rows))


def _key(scores: Scores) -> tuple[float, float]:
    """Return what passes are compared by: the accuracy decides while no span is found."""
    return scores.main, scores.accuracy


def _deviation(batch: Batch) -> float:
    """Return the standard deviation of the average of the layers over the tokens of a batch."""
    inside = torch.arange(batch.labels.shape[1])[None] < batch.lengths[:, None]
    return float(batch.layers.mean(dim=0)[inside].std())
