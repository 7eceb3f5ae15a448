"""The network behind a worker: batches of sentences in, vectors in shared memory out."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import orjson
import torch
from torch import Tensor

from elmo_model.checkpoints import CheckpointError
from elmo_model.elmo import Elmo
from elmo_model.inference.malloc import keep_memory
from elmo_model.layers.scalar_mix import layer_norm, mix
from elmo_model.pretrained import open_model
from elmo_model.representations import Representations
from elmo_serve.output import Output
from elmo_serve.workers.messages import (
    Batch,
    Done,
    Failed,
    LoadFailed,
    Message,
    ModelInfo,
    Ready,
    RunnerSettings,
)
from elmo_serve.workers.shared_memory import Bytes, view

_SENTENCE = ("A", "bank", "by", "the", "river", "naïve", "東京", "")
# Three of different lengths, one of them longer than what a GPU reads at once.
_SELF_TEST = (_SENTENCE, _SENTENCE[:3], 2 * _SENTENCE + _SENTENCE[:4])
# Largest difference from plain float32 on the CPU, relative to the largest value.
_TOLERANCES = {"float32": 1e-3, "bfloat16": 0.1, "float16": 0.02, "int8": 0.1}


class Runner:
    """A model on a device. Single-threaded: one batch at a time."""

    def __init__(
        self, model: Elmo, precision: str, device: torch.device, seconds_per_token: float
    ) -> None:
        self.seconds_per_token = seconds_per_token
        self._model = model
        self._device = device
        origin = model.origin
        self.info = ModelInfo(
            name=origin.name,
            revision=origin.revision,
            format=origin.format,
            layers=model.layers,
            dimension=model.dimension,
            parameters=model.parameter_count,
            precision=precision,
        )

    def run(self, batch: Batch, memory: Bytes) -> Message:
        """Compute a batch and write sentence i to ``memory`` at ``batch.offsets[i]``.

        Raises:
            DeviceLostError: when this process can use its device no more.
        """
        cache = self._model.token_cache
        hits, misses, start = cache.hits, cache.misses, time.perf_counter()
        try:
            sentences = [orjson.loads(text) for text in batch.sentences]
            not_finite = self._write(sentences, batch, memory)
        except torch.AcceleratorError as error:
            # An illegal access, say: every later call of this process fails too.
            raise DeviceLostError(_one_line(error)) from error
        except Exception as error:  # whatever the model raises is the batch's own failure
            seconds = time.perf_counter() - start
            memory_short = is_memory_short(error)
            reason = f"{type(error).__name__}: {error}"
            del error  # it holds the frames, they hold the tensors
            if memory_short and self._device.type == "cuda":
                torch.cuda.empty_cache()
            return Failed(batch.id, seconds, memory_short, reason)
        seconds = time.perf_counter() - start
        return Done(batch.id, seconds, cache.hits - hits, cache.misses - misses, not_finite)

    def _write(
        self, sentences: Sequence[Sequence[str]], batch: Batch, memory: Bytes
    ) -> tuple[int, ...]:
        with torch.inference_mode():
            answers = answers_of(self._model, sentences, batch.outputs)
        not_finite = []
        answers = _on_host(answers, batch.outputs)
        for index, (answer, offset, wanted) in enumerate(
            zip(answers, batch.offsets, batch.outputs, strict=True)
        ):
            target = view(memory, offset, tuple(answer.shape), wanted.dtype)
            torch.from_numpy(target).copy_(answer)
            if not np.isfinite(target).all():
                not_finite.append(index)
        return tuple(not_finite)


def is_memory_short(error: Exception) -> bool:
    """Say whether a device, or the host, had no room. On a CPU torch has no error of its own."""
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or (
        isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
    )


def load(settings: RunnerSettings) -> Runner:
    """Load, prepare, test and warm up the model.

    Raises:
        UnfitModelError: when it cannot be served from this device; the message is one line.
    """
    torch.set_num_threads(settings.threads)
    keep_memory()
    device = torch.device(settings.device)
    try:
        model = open_model(settings.model, token_cache_size=settings.token_cache_size)
    except (CheckpointError, OSError) as error:
        raise UnfitModelError(str(error)) from error
    expected = known_vectors(model)
    try:
        model.to(device)
        model.prepare(settings.precision, gate_cache_bytes=settings.gate_cache_bytes)
        model.bilm.recordings.make()
    except (RuntimeError, ValueError) as error:
        raise UnfitModelError(f"{settings.device}, {settings.precision}: {error}") from error
    self_test(model, expected, settings)
    seconds_per_token = _warm_up(model, settings.warm_up_tokens)
    return Runner(model, settings.precision, device, seconds_per_token)


class UnfitModelError(Exception):
    """The model cannot be served from here."""


class DeviceLostError(Exception):
    """The worker has to end: another process may find the device as it should be."""


def start(settings: RunnerSettings) -> tuple[Runner | None, Message]:
    """Load the model and say how that went, in the words of the protocol."""
    try:
        runner = load(settings)
    except UnfitModelError as error:
        return None, LoadFailed(_one_line(error))
    return runner, Ready(runner.info, runner.seconds_per_token)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def known_vectors(model: Elmo) -> Tensor:
    """Return what the self-test compares."""
    return torch.cat(model.embed(_SELF_TEST), dim=1).float().cpu()


def self_test(model: Elmo, expected: Tensor, settings: RunnerSettings) -> None:
    """Compare what the model answers with `expected`; without CUDA graphs where it differs by them.

    Raises:
        UnfitModelError: when it differs by more than the precision explains.
    """
    try:
        _compare(expected, known_vectors(model), settings)
    except UnfitModelError as error:
        if not model.bilm.recordings.are_used:
            raise
        model.bilm.recordings.stop(str(error))
        _compare(expected, known_vectors(model), settings)


def answers_of(
    model: Elmo, sentences: Sequence[Sequence[str]], wanted: Sequence[Output]
) -> list[Tensor]:
    """Map sentences to what each of them asked for, from zero state.

    Boundaries are computed for those alone whose layers are normalised: they count in the mean
    and the variance (AllenNLP `scalar_mix.py`).
    """
    answers: dict[int, Tensor] = {}
    for normalised in (False, True):
        members = [i for i, output in enumerate(wanted) if output.layer_norm == normalised]
        if not members:
            continue
        own = [sentences[i] for i in members]
        representations = model.read_bounded(own) if normalised else model.read(own)
        found = outputs(model, representations, [wanted[i] for i in members])
        answers.update(zip(members, found, strict=True))
    return [answers[i] for i in range(len(wanted))]


def outputs(
    model: Elmo, representations: Representations, wanted: Sequence[Output]
) -> list[Tensor]:
    """Map the layers of a batch to what each sentence asked for, boundary tokens cut.

    An answer has the shape of ``Output.shape``. All mixed sentences go through one product, a row
    of weights a token, and then into the space of aligned languages, where the model has one.
    """
    sentences = representations.sentences()
    mixed = [i for i, output in enumerate(wanted) if output.weights is not None]
    mixtures = _mixtures(model, [sentences[i] for i in mixed], [wanted[i] for i in mixed])
    mixture_of = dict(zip(mixed, mixtures, strict=True))
    answers = []
    for index, (layers, output) in enumerate(zip(sentences, wanted, strict=True)):
        if output.layers is None:
            answer = mixture_of[index]
        elif output.stacked:
            answer = _select(layers, output.layers)
        else:
            answer = layers[output.layers[0]]
        answers.append(_pool(answer[..., representations.inside, :], output.pooling))
    return answers


def _on_host(answers: list[Tensor], wanted: Sequence[Output]) -> list[Tensor]:
    """Return the answers on the CPU: from another device in one copy, cast there."""
    if not answers or answers[0].device.type == "cpu":
        return answers
    host: list[Tensor] = [torch.empty(0)] * len(answers)
    for dtype in {output.dtype for output in wanted}:
        members = [index for index, output in enumerate(wanted) if output.dtype == dtype]
        flat = torch.cat([answers[i].reshape(-1).to(getattr(torch, dtype)) for i in members]).cpu()
        parts = torch.split(flat, [answers[i].numel() for i in members])
        for index, part in zip(members, parts, strict=True):
            host[index] = part.view(answers[index].shape)
    return host


def _mixtures(model: Elmo, sentences: list[Tensor], wanted: list[Output]) -> list[Tensor]:
    if not sentences:
        return []
    layers = torch.cat(
        [
            layer_norm(layers) if output.layer_norm else layers
            for layers, output in zip(sentences, wanted, strict=True)
        ],
        dim=1,
    )
    lengths = [sentence.shape[1] for sentence in sentences]
    scalars = torch.tensor([output.weights for output in wanted], dtype=torch.float64)
    gammas = torch.tensor([output.gamma for output in wanted], dtype=torch.float64)
    rows = (torch.softmax(scalars, 1) * gammas[:, None]).to(layers.device, layers.dtype)
    rows = rows.repeat_interleave(torch.tensor(lengths, device=layers.device), 0)
    return list(torch.split(model.align(mix(layers, rows.T, 1.0)), lengths))


def _select(layers: Tensor, numbers: tuple[int, ...]) -> Tensor:
    if numbers == tuple(range(len(layers))):
        return layers
    return layers[list(numbers)]


def _pool(vectors: Tensor, pooling: str) -> Tensor:
    """Map (..., n, W) to (..., W) over the tokens, or leave it; no tokens pool to zeros."""
    if pooling == "none":
        return vectors
    if not vectors.shape[-2]:
        return vectors.new_zeros((*vectors.shape[:-2], vectors.shape[-1]))
    return vectors.mean(-2) if pooling == "mean" else vectors.amax(-2)


def _compare(expected: Tensor, found: Tensor, settings: RunnerSettings) -> None:
    if not torch.isfinite(expected).all():
        raise UnfitModelError(f"{settings.model}: the weights give vectors that are not finite")
    scale = expected.abs().max().clamp(min=1e-6)
    difference = float(((found - expected).abs().max() / scale).nan_to_num(torch.inf))
    allowed = _TOLERANCES[settings.precision]
    if difference > allowed:
        raise UnfitModelError(
            f"self-test on {settings.device} in {settings.precision}: vectors differ by "
            f"{difference:.2g} of the largest value, allowed is {allowed:.2g}"
        )


def _warm_up(model: Elmo, tokens: int) -> float:
    """Run the largest legal batches, long and wide: memory that is missing is missing now.

    Returns the seconds a token took the second time, when its words were known.
    """
    wide = [[f"{row}"] for row in range(max(1, tokens // 3))]
    model.embed(wide)
    length = min(tokens - 2, 126)
    long = [
        [f"{row}-{column}" for column in range(length)] for row in range(tokens // (length + 2))
    ]
    model.embed(long)
    start = time.perf_counter()
    _synchronised(model.embed(long))
    return (time.perf_counter() - start) / tokens


def _synchronised(answers: list[Tensor]) -> None:
    """Wait until a device that computes on its own has done so."""
    if answers and answers[0].device.type == "cuda":
        torch.cuda.synchronize(answers[0].device)
