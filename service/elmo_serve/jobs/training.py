"""A fit on vectors that lie in a memory map: the part of `jobs` that uses torch."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from elmo_model.network.elmo import Origin
from elmo_model.tasks import report
from elmo_model.tasks.comparison import Comparison, FittedTask, compare_features
from elmo_model.tasks.examples import Examples, FitError
from elmo_model.tasks.features import Features
from elmo_model.tasks.fitter import FitOptions
from elmo_serve.jobs.plan import FitMessage, FitRequest, Fits, NotTrained, Scored, Train, Trained
from elmo_serve.workers.shared_memory import Bytes, view

_THREADS = 1
"""Threads of torch: the products of a linear head are too small for more."""

_log = logging.getLogger(__name__)


def train(task: Train, vectors: Bytes, send: Callable[[FitMessage], None]) -> Trained | NotTrained:
    """Fit a task, send its progress, write its head and report, and return its last message."""
    torch.set_num_threads(_THREADS)
    try:
        request = FitRequest.unpacked(task.request)
        options = FitOptions(**request.options)
        rows = view(vectors, 0, task.shape, "float32")
        found = _compare(request, rows, options, send)
        origin = Origin(task.model, task.format, task.revision)
        fitted = FittedTask(task.name, request.kind, options, found, origin)
        fitted.write(Path(task.folder))
    except (FitError, OSError) as error:
        return NotTrained(" ".join(str(error).split()))
    except (MemoryError, RuntimeError) as error:
        _log.exception("the fit of a task failed")
        return NotTrained(f"{type(error).__name__}: {' '.join(str(error).split()):.200}")
    return Trained(
        weights=found.best.weights,
        gamma=found.best.gamma,
        layer_norm=options.layer_norm,
        scored=report.scored(found),
        fit=fitted.fit,
    )


def _compare(
    request: FitRequest,
    rows: NDArray[np.float32],
    options: FitOptions,
    send: Callable[[FitMessage], None],
) -> Comparison:
    offsets = request.row_offsets

    def features(examples: Examples) -> Features:
        index = [[request.row_of(offsets, place) for place in each] for each in examples.places]
        return Features(examples, rows, np.array(index, np.int64))

    test = None if request.test is None else features(request.test)
    return compare_features(
        features(request.train),
        test,
        options,
        lambda row: send(Scored(row.name, report.mixture(row))),
        lambda done, total: send(Fits(done, total)),
    )
