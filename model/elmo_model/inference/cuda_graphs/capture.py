"""CUDA graphs of a biLM, or none where they cannot be captured."""

import logging

import torch

from elmo_model.inference.bilm import InferenceBiLM
from elmo_model.inference.cuda_graphs.capturer import CaptureError
from elmo_model.inference.cuda_graphs.chunked_bilm import ChunkedBiLM
from elmo_model.inference.cuda_graphs.cuda_capturer import CudaCapturer
from elmo_model.inference.cuda_graphs.gate_update import fastest

_log = logging.getLogger(__name__)


def capture(bilm: InferenceBiLM) -> ChunkedBiLM | None:
    """Capture all graphs of a biLM now, so that no batch waits for one or lacks memory for it.

    Returns None on a CPU, and with a warning when a capture fails.
    """
    like = bilm.forward_stack.layers[0].bias
    if like.device.type != "cuda":
        return None
    try:
        with torch.inference_mode():
            chunked = ChunkedBiLM(bilm, CudaCapturer(like.device), fastest(like))
            chunked.capture_all()
    except CaptureError as error:
        warn_unused(str(error))
        return None
    return chunked


def warn_unused(reason: str) -> None:
    """Log that CUDA graphs are not used, and why."""
    _log.warning("CUDA graphs are not used, which is slower: %s", " ".join(reason.split()))
