"""The vectors that each sentence of a batch asks for: layers or mixes, pooled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional

from elmo_model.inference.batch_run import never_stop
from elmo_model.inference.encoder import Encoder
from elmo_model.inference.steps import whole
from elmo_model.network.scalar_mix import layer_norm, mix
from elmo_model.network.state import Representations
from elmo_serve.processes.heartbeat import Steps
from elmo_serve.selection import Output
from elmo_serve.workers.language import LanguageModel
from elmo_serve.workers.language_results import Wanted

# Tokens that are mixed at once: the sums of more would take memory beside that of the layers.
_MIXED_TOKENS = 4_096


@dataclass(frozen=True, slots=True)
class Control:
    """When the computation of a batch stops, and the sentences that it leaves out from then on.

    `stop` is called after each time step, by two threads at once. `layers` is memory for the layers
    of a batch without boundaries, (L + 1, N, 2P); None for new memory.
    """

    stop: Callable[[], bool] = never_stop
    dropped: set[int] = field(default_factory=set)
    layers: Tensor | None = None


def vectors_of(
    network: Encoder, sentences: Sequence[Sequence[str]], wanted: Sequence[Wanted]
) -> list[Tensor]:
    """Map sentences to the outputs that they ask for, as `vectors_in_steps` does."""
    return whole(vectors_in_steps(network, sentences, wanted, None, Control()))


def vectors_in_steps(
    network: Encoder,
    sentences: Sequence[Sequence[str]],
    wanted: Sequence[Wanted],
    language: LanguageModel | None,
    control: Control,
) -> Steps[list[Tensor]]:
    """Map sentences to the outputs that they ask for; stop whenever `control` says so.

    `language` is the language model, for its outputs.

    Boundaries are computed only for sentences whose layers are normalised: they count in the mean
    and the variance (AllenNLP `scalar_mix.py`).
    """
    vectors: dict[int, Tensor] = {}

    def encode(members: list[int], bounded: bool = False) -> Steps[Representations]:
        layers = None if bounded else control.layers
        run = network.encode([sentences[i] for i in members], bounded=bounded, layers=layers)
        while True:
            run.drop([place for place, i in enumerate(members) if i in control.dropped])
            if run.advance(control.stop):
                return run.representations
            yield None

    for normalised in (False, True):
        asked = {
            i: output
            for i, output in enumerate(wanted)
            if isinstance(output, Output) and output.layer_norm == normalised
        }
        members = list(asked)
        if not members:
            continue
        representations = yield from encode(members, normalised)
        found = select(network, representations, list(asked.values()))
        vectors.update(zip(members, found, strict=True))
    others = [i for i, output in enumerate(wanted) if not isinstance(output, Output)]
    if others and language is not None:
        layers = (yield from encode(others)).sentences()
        own = [sentences[i] for i in others]
        results = yield from language.results(own, [wanted[i] for i in others], layers)
        vectors.update(zip(others, results, strict=True))
    return [vectors[i] for i in range(len(wanted))]


def select(
    network: Encoder,
    representations: Representations,
    wanted: Sequence[Output],
) -> list[Tensor]:
    """Map the layers of a batch to the vectors of each sentence, without boundary tokens.

    The vectors of a sentence have the shape `Output.shape`. All mixed sentences go through one
    product, with a row of weights for each token, and are then aligned if the model is aligned.
    """
    sentences = representations.sentences()
    mixed = {i: output for i, output in enumerate(wanted) if output.weights is not None}
    mixture_of = _mixtures(network, representations, mixed)
    vectors = []
    for index, (layers, output) in enumerate(zip(sentences, wanted, strict=True)):
        if output.layers is None:
            own = mixture_of[index]
        else:
            own = layer_norm(layers) if output.layer_norm else layers
            if output.concat:
                own = _stacked(own, output.layers).transpose(0, 1).flatten(1)
            else:
                own = _stacked(own, output.layers) if output.stacked else own[output.layers[0]]
        vectors.append(own[..., representations.inside, :])
    return _pooled(vectors, wanted)


def _mixtures(
    network: Encoder, representations: Representations, wanted: dict[int, Output]
) -> dict[int, Tensor]:
    """Map the numbers of sentences to their mixes (n, 2P)."""
    if not wanted:
        return {}
    sentences = representations.sentences()
    if len(wanted) == len(sentences) and not any(output.layer_norm for output in wanted.values()):
        layers = representations.layers
    else:
        own = (
            layer_norm(sentences[i]) if output.layer_norm else sentences[i]
            for i, output in wanted.items()
        )
        layers = torch.cat(list(own), dim=1)
    lengths = [representations.lengths[i] for i in wanted]
    scalars = torch.tensor([output.weights for output in wanted.values()], dtype=torch.float64)
    gammas = torch.tensor([output.gamma for output in wanted.values()], dtype=torch.float64)
    rows = (torch.softmax(scalars, 1) * gammas[:, None]).to(layers.dtype)
    rows = rows.repeat_interleave(torch.tensor(lengths), 0)  # here: a device would be waited for
    rows = rows.to(layers.device, non_blocking=True)
    mixed = torch.empty_like(layers[0])
    parts = (torch.split(each, _MIXED_TOKENS, dim=-2) for each in (layers, rows, mixed))
    for part, weights, target in zip(*parts, strict=True):
        target.copy_(network.align(mix(part, weights.T, 1.0)))
    return dict(zip(wanted, torch.split(mixed, lengths), strict=True))


def _stacked(layers: Tensor, numbers: tuple[int, ...]) -> Tensor:
    """Map all layers (L + 1, n, 2P) to those of these numbers, without a copy if these are all."""
    if numbers == tuple(range(len(layers))):
        return layers
    return torch.stack([layers[number] for number in numbers])


def _pooled(vectors: Sequence[Tensor], wanted: Sequence[Output]) -> list[Tensor]:
    """Pool and normalise the vectors (..., n, w) of each sentence as it asks for.

    On a device those that ask for the same are pooled at once: a launch takes longer than its work.
    """
    found = []
    alike: dict[tuple[str, bool, tuple[int, ...]], list[int]] = {}
    for i, (own, output) in enumerate(zip(vectors, wanted, strict=True)):
        if output.pooling != "none" and own.device.type != "cpu":
            shape = (*own.shape[:-2], own.shape[-1])
            alike.setdefault((output.pooling, output.normalize, shape), []).append(i)
            found.append(own)
        else:
            found.append(_normal(_pool(own, output.pooling), output.normalize))
    for (pooling, is_unit, _), members in alike.items():
        rows = torch.cat([vectors[i].movedim(-2, 0) for i in members])
        pooled = segments(rows, [vectors[i].shape[-2] for i in members], pooling)
        for i, own in zip(members, _normal(pooled, is_unit), strict=True):
            found[i] = own
    return found


def segments(vectors: Tensor, lengths: Sequence[int], pooling: str) -> Tensor:
    """Map (N, ..., w) to (sentences, ..., w): the pooled rows of each; no rows pool to zeros.

    `lengths` are the rows of each sentence.
    """
    rows = torch.tensor(lengths).to(vectors.device, non_blocking=True)
    pooled = torch.segment_reduce(vectors, pooling, lengths=rows, unsafe=True)
    return pooled.masked_fill_((rows == 0).view(-1, *[1] * (pooled.dim() - 1)), 0.0)


def _pool(vectors: Tensor, pooling: str) -> Tensor:
    """Map (..., n, w) to (..., w) over the tokens, or return it; no tokens pool to zeros."""
    if pooling == "none":
        return vectors
    if not vectors.shape[-2]:
        return vectors.new_zeros((*vectors.shape[:-2], vectors.shape[-1]))
    return vectors.mean(-2) if pooling == "mean" else vectors.amax(-2)


def _normal(vectors: Tensor, is_unit: bool) -> Tensor:
    """Scale each vector to length 1 if `is_unit`; one of zeros stays as it is."""
    return functional.normalize(vectors, dim=-1) if is_unit else vectors
