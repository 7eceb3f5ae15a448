"""A runner from its settings: load the model, build its encoder, test it and warm it up."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import torch
from torch import Tensor

from elmo_model.checkpoints import CheckpointError
from elmo_model.checkpoints.softmax import StoredSoftmax
from elmo_model.errors import OptionError
from elmo_model.inference import row_buckets
from elmo_model.inference.centre import TEXT, stated_or_computed
from elmo_model.inference.cuda_graphs import TAIL
from elmo_model.inference.encoder import Encoder
from elmo_model.inference.precision import PRECISION_FORMATS
from elmo_model.models.opening import find_softmax, open_model
from elmo_model.network.description import Centre
from elmo_model.network.elmo import ElmoNetwork
from elmo_model.system import keep_freed_memory
from elmo_model.text.lines import TextError
from elmo_serve.workers.language import LanguageModel
from elmo_serve.workers.messages import LoadFailed, Message, Ready, RunnerSettings, WarmUp
from elmo_serve.workers.model_worker import Runner, is_memory_short, one_line, release_memory

_log = logging.getLogger("elmo_serve.workers")

_SENTENCE = ("A", "bank", "by", "the", "river", "naïve", "東京", "")
# Three sentences of different lengths.
_SELF_TEST = (_SENTENCE, _SENTENCE[:3], 2 * _SENTENCE + _SENTENCE[:4])

_LEAST_TOKENS = 256
"""Padded tokens of the smallest batch that the warm-up tries where memory is short; below it a
device has no use."""


class ModelLoadError(Exception):
    """The model cannot be served from this device; the message is one line."""


def start(settings: RunnerSettings, *, owns_process: bool = False) -> tuple[Runner | None, Message]:
    """Load the model; return the runner, or None, and the message that tells how it went.

    `owns_process` permits settings of the whole process: the number of torch threads and the
    tuning of the allocator. A worker in a thread of another program leaves both alone.
    """
    try:
        runner = load(settings, owns_process=owns_process)
    except ModelLoadError as error:
        return None, LoadFailed(one_line(error))
    return runner, Ready(runner.info, runner.warm_up, dict(row_buckets.TRIALS))


def load(settings: RunnerSettings, *, owns_process: bool = False) -> Runner:
    """Load the model, build its encoder, test it, warm it up and compute its centre.

    After another worker a worker on a CPU is not warmed up, and the results of trials and the
    centre are known: together they are more than half of the time for which requests wait.

    Raises:
        ModelLoadError: when the model cannot be served from this device.
    """
    if owns_process:
        _configure_torch(settings)
    place = f"{settings.device}, {settings.precision}"
    try:
        return _load(settings, owns_process=owns_process)
    except ModelLoadError:
        raise
    except OptionError as error:
        raise ModelLoadError(f"{place}: {error}") from error
    except Exception as error:  # of torch, of a driver, of a library: the worker must say why
        if is_memory_short(error):
            raise ModelLoadError(f"{place}: no memory to load the model: {error}") from error
        _log.exception("the model could not be loaded")
        raise ModelLoadError(f"{place}: {type(error).__name__}: {error}") from error


def _configure_torch(settings: RunnerSettings) -> None:
    """Set what holds for the whole process: threads, and float32 that is float32.

    By default cuDNN rounds the factors of float32 convolutions to TF32, which has 10 bits.
    """
    torch.set_num_threads(settings.threads)
    if torch.device(settings.device).type == "cuda":
        torch.backends.cudnn.allow_tf32 = False
        torch.set_float32_matmul_precision("highest")


def _load(settings: RunnerSettings, *, owns_process: bool) -> Runner:
    encoder, expected, softmax = _encoder(settings, owns_process=owns_process)
    if owns_process:
        keep_freed_memory()  # now: the network that was loaded has been freed
    self_test(encoder, expected, settings)
    device = torch.device(settings.device)
    known = _known(encoder, settings)
    if known is not None and device.type == "cpu":
        warmed_up = known.warm_up
    else:
        warmed_up = warm_up(encoder, device, settings)
    return Runner(
        encoder,
        device,
        warmed_up,
        _centre(encoder, known, max(warmed_up.tokens, _LEAST_TOKENS)),
        None if softmax is None else LanguageModel(encoder, softmax),
    )


def _known(encoder: Encoder, settings: RunnerSettings) -> Ready | None:
    """Return the report of the worker before, if it was of the same weights."""
    known = settings.known
    is_same = known is not None and known.info.revision == encoder.origin.revision
    return known if is_same else None


def _centre(encoder: Encoder, known: Ready | None, max_tokens: int) -> Centre:
    """Return the centre that the checkpoint states, or else that of the built-in text.

    The latter is taken from `known`, which has the same weights. A centre that its checkpoint
    stated is not: the file may have been replaced by one that states another, or none.
    """
    former = None if known is None else known.info.centre
    is_stated = encoder.origin.description.centre is not None
    if former is None or is_stated or former.text != TEXT:
        return stated_or_computed(encoder, max_tokens)
    return former


def _encoder(
    settings: RunnerSettings, *, owns_process: bool
) -> tuple[Encoder, Tensor, StoredSoftmax | None]:
    """Load the network; return its encoder, the vectors that it should give, and its softmax."""
    place = ""  # the setting that names the file that is read
    try:
        elmo = open_model(settings.model)
        file = Path(settings.softmax) if settings.softmax else None
        place = "ELMO_SOFTMAX: " if file else ""
        softmax = find_softmax(settings.model, elmo, file, settings.softmax_words)
    except (CheckpointError, TextError, OSError) as error:
        raise ModelLoadError(f"{place}{error}") from error
    expected = known_vectors(elmo)
    if settings.known is not None:
        row_buckets.TRIALS.update(settings.known.trials)
    encoder = Encoder.of(
        elmo.to(torch.device(settings.device)),
        settings.precision,
        threads=settings.threads,
        owns_process=owns_process,
    )
    return encoder, expected, softmax


def known_vectors(network: ElmoNetwork | Encoder) -> Tensor:
    """Return the vectors that the self-test compares, (L + 1, N, 2P) on the CPU."""
    return torch.cat(network.embed(_SELF_TEST), dim=1).float().cpu()


def self_test(encoder: Encoder, expected: Tensor, settings: RunnerSettings) -> None:
    """Compare the vectors of an encoder with `expected`.

    Raises:
        ModelLoadError: when the vectors differ by more than the precision explains.
    """
    found = known_vectors(encoder)
    if not torch.isfinite(expected).all():
        raise ModelLoadError(f"{settings.model}: the weights give vectors that are not finite")
    scale = expected.abs().max().clamp(min=1e-6)
    difference = float(((found - expected).abs().max() / scale).nan_to_num(torch.inf))
    allowed = PRECISION_FORMATS[encoder.precision].tolerance
    if difference > allowed:
        raise ModelLoadError(
            f"self-test on {settings.device} in {encoder.precision}: vectors differ by "
            f"{difference:.2g} of the largest value, allowed is {allowed:.2g}"
        )


def warm_up(encoder: Encoder, device: torch.device, settings: RunnerSettings) -> WarmUp:
    """Run the largest batches that the device has memory for; halve them until it has.

    Raises:
        ModelLoadError: the device has too little memory for any use.
    """
    tokens = settings.warm_up_tokens
    while (found := _warm_up_within(encoder, tokens)) is None:
        release_memory(device)
        if tokens <= _LEAST_TOKENS:
            raise ModelLoadError(f"{settings.device}: no memory for a batch of {tokens} tokens")
        tokens //= 2
        fields = {"device": settings.device, "tokens": tokens}
        _log.warning("device memory is short, batches are halved", extra=fields)
    return found


def _warm_up_within(encoder: Encoder, tokens: int) -> WarmUp | None:
    """Run batches of up to `tokens` tokens; None for a lack of memory.

    One batch has as many sentences as fit, one has long sentences. The long batch is timed in its
    second run, when its words are in the caches. On a CUDA device smaller batches capture the
    graphs of all numbers of rows and steps: a later capture would delay its request, and needs
    memory.
    """
    try:
        wide = [[f"{row}"] for row in range(max(1, tokens // 3))]
        encoder.embed(wide)
        for rows in encoder.bilm.graphs.rows if encoder.bilm.graphs else ():
            for length in (1, TAIL + 1):
                fitting = wide[: min(rows, tokens // (length + 2))]
                encoder.embed([words * length for words in fitting])
        length = min(tokens - 2, 126)
        long = [
            [f"{row}-{column}" for column in range(length)] for row in range(tokens // (length + 2))
        ]
        encoder.embed(long)
        return WarmUp(tokens, _seconds(encoder, long) / tokens)
    except Exception as error:
        if is_memory_short(error):
            return None
        raise


def _seconds(encoder: Encoder, sentences: list[list[str]]) -> float:
    start = time.perf_counter()
    device = encoder.embed(sentences)[0].device
    if device.type == "cuda":  # it computes asynchronously
        torch.cuda.synchronize(device)
    return time.perf_counter() - start
