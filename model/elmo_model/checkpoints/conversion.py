"""Write a network in another format, or with the state after a text as its start."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from elmo_model.checkpoints import allennlp, describe, native, round_weights, softmax
from elmo_model.checkpoints.checkpoint import CheckpointError, checkpoint_of
from elmo_model.files.atomic import publish
from elmo_model.network.elmo import Elmo
from elmo_model.network.state import State
from elmo_model.text.files import numbered_lines

NATIVE = ".safetensors"
"""The ending of a file in the native format; any other destination is a folder with the pair."""


def convert(
    elmo: Elmo,
    destination: Path,
    dtype: str,
    on_step: Callable[[str], None],
    kept: softmax.WordSoftmax | None = None,
    softmax_dtype: str = "int8",
) -> tuple[str, int]:
    """Write a network to `destination`, and return its format there and its size in bytes.

    It is written into a temporary folder of the same file system, read back and compared, and only
    then moved into place; a folder that is there is replaced. With 16 bits the weights of `elmo`
    are rounded. The softmax that is `kept`, for the native format alone, is written beside it, and
    one of another network that is there is deleted. Raises CheckpointError for a network that the
    format cannot hold, or where another network came back or the disk refuses.
    """
    kind: torch.dtype = getattr(torch, dtype)
    if dtype != "float32":
        round_weights(elmo, kind)
    try:
        with tempfile.TemporaryDirectory(prefix=".elmo-", dir=destination.parent) as aside:
            on_step(f"Writing {destination}")
            written = Path(aside) / destination.name
            _write(elmo, written, destination, kind)
            on_step("Comparing")
            _, origin = describe(written)
            if origin.revision != elmo.origin.revision:
                raise OSError(f"revision {origin.revision} came back for {elmo.origin.revision}")
            size = _size(written)
            _place(written, destination)
            if destination.suffix == NATIVE:
                _write_softmax(kept, destination, origin.revision, softmax_dtype)
    except OSError as error:
        fault = error.strerror or error
        raise CheckpointError(f"{destination} cannot be written: {fault}") from error
    return origin.format, size


def _write(elmo: Elmo, written: Path, destination: Path, dtype: torch.dtype) -> None:
    try:
        if destination.suffix == NATIVE:
            native.save(elmo, written, dtype)
        else:
            allennlp.write(elmo, written)
    except CheckpointError as error:
        # The user does not know the temporary folder.
        raise CheckpointError(str(error).replace(str(written), str(destination))) from error


def _write_softmax(
    kept: softmax.WordSoftmax | None, destination: Path, revision: str, dtype: str
) -> None:
    path = destination.with_suffix(softmax.ENDING)
    if kept is None:
        path.unlink(missing_ok=True)
    else:
        softmax.save(kept, path, revision, getattr(torch, dtype))


def _place(written: Path, destination: Path) -> None:
    """Put the result at `destination`; move a folder that is there out of the way first."""
    if not destination.is_dir():
        publish(written, destination)
        return
    replaced = written.with_name("replaced.old")
    destination.rename(replaced)
    try:
        publish(written, destination)
    except OSError:
        replaced.rename(destination)
        raise


def _size(written: Path) -> int:
    """Return the size of a file, or of the files of a folder, in bytes."""
    files = written.iterdir() if written.is_dir() else [written]
    return sum(path.stat().st_size for path in files)


_PASSES = 4  # as often as bio_embeddings reads its text; for more, the text may repeat itself
_MAX_TOKENS = 100_000  # of a text; more would take minutes


def warmed(elmo: Elmo, text: Path) -> Elmo:
    """Return a network that starts every sentence from the state after a text, on the same device.

    `text` has one tokenised sentence a line, which are read in order, four times, with state
    carried. The revision covers the state. Raises CheckpointError for a text without tokens or with
    too many, TextError for one that cannot be read.
    """
    sentences = [line.split() for _, _, line in numbered_lines(text)]
    tokens = sum(map(len, sentences))
    if not 0 < tokens <= _MAX_TOKENS:
        raise CheckpointError(
            f"{text}: holds {tokens:,} tokens, expected 1 to {_MAX_TOKENS:,} for a warm start"
        )
    like = next(elmo.parameters())
    state = State.zero(elmo.config.lstm, like, 1)
    with torch.inference_mode():
        for sentence in sentences * _PASSES:
            _, state = elmo([sentence], state)
    cold = checkpoint_of(elmo)
    start = {"start_h": state.h.cpu().clone(), "start_c": state.c.cpu().clone()}
    config = replace(cold.config, warm_start=True)
    warm = replace(cold, config=config, tensors={**cold.tensors, **start})
    return warm.build().to(like.device)
