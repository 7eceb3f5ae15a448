"""ELMo in scikit-learn: a transformer of sentences into pooled vectors, here or over HTTP.

Needs scikit-learn: `pip install 'elmo-serve[sklearn]'`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from numbers import Integral
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from elmo_client import Client
from elmo_client.batches import check_sentence, check_several
from elmo_client.selection import Selection
from elmo_model.errors import shown
from elmo_model.text.tokenizers import Tokenize, tokenizer
from elmo_model.validation import validated
from elmo_serve.errors import ServiceError
from elmo_serve.files.vectors import LengthSorted
from elmo_serve.mix import Mix
from elmo_serve.models.in_process import InProcess, open_network
from elmo_serve.selection import Output, mixture, select
from elmo_serve.tasks import TaskMembers, load
from elmo_serve.workers.messages import ModelInfo

_DEFAULT_MODEL: Final = "english"

_log = logging.getLogger(__name__)

Stamps = tuple[tuple[str, int, int], ...]


class ElmoVectorizer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Maps sentences, lists of tokens or texts, to one vector each: (n, width).

    Args:
        url: the address of a server; None computes in this process.
        model: the name of a model or a path, by default `english`; a published model is found by
            ELMO_CACHE, ELMO_MIRROR and ELMO_OFFLINE. With a url the name of one of the server's
            models, by default its first.
        layers: "top", "average", "sum", "concat" or one layer number.
        mix: L + 1 raw weights of a mix, or an object with `weights`, `gamma` and `layer_norm`; in
            place of `layers`.
        task: the path of a task file, which `elmo fit` writes; with a url the name of one of the
            server's tasks. In place of `layers`.
        pooling: "mean" or "max" over the tokens of a sentence.
        normalize: scale every vector to length 1.
        tokenizer: for sentences that are texts; None for that of the model.
        precision: of the network in this process.
        api_key: a key of the server.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        model: str | Path | None = None,
        layers: str | int = "average",
        mix: Mapping[str, Any] | Sequence[float] | None = None,
        task: str | None = None,
        pooling: str = "mean",
        normalize: bool = False,
        tokenizer: str | None = None,
        precision: str = "float32",
        api_key: str | None = None,
    ) -> None:
        self.url = url
        self.model = model
        self.layers = layers
        self.mix = mix
        self.task = task
        self.pooling = pooling
        self.normalize = normalize
        self.tokenizer = tokenizer
        self.precision = precision
        self.api_key = api_key

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803 - scikit-learn's names
        """Check the options; there is nothing to learn. Raises ValueError."""
        self._members()
        self.fitted_ = True
        return self

    def _members(self) -> dict[str, Any]:
        """Return the options as `Client.embed` has them. Raises ValueError for wrong ones."""
        if self.pooling not in ("mean", "max"):
            raise ValueError(f"pooling is {self.pooling!r}, expected mean or max")
        is_used = self.mix is None and self.task is None
        if (is_used and not isinstance(self.layers, str | Integral)) or self.layers == "all":
            raise ValueError(f"layers is {shown(self.layers)}, expected the name or number of one")
        # The default of `layers` gives way to a task or a mix.
        layers = self.layers if is_used or self.layers != "average" else None
        shape: Any = {"pooling": self.pooling, "normalize": bool(self.normalize)}
        selected: Any = {"layers": layers, "task": self.task, "mix": self.mix}
        members = dict(Selection.of(**selected, **shape).members)
        if "mix" in members:
            validated(Mix, members["mix"], "mix")
        return members

    def transform(self, X: Any) -> NDArray[np.float32]:  # noqa: N803
        """Return the vectors of sentences, (n, width).

        Raises ValueError for wrong options and a wrong task file, CheckpointError for a model that
        cannot be read, and ElmoError for a server that does not respond or refuses.
        """
        return self._vectors(X)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the columns, `elmovectorizer0` and so on, for `set_output`.

        `input_features` is ignored. Raises as `transform`.
        """
        width = self._vectors([]).shape[1]
        return np.array([f"elmovectorizer{number}" for number in range(width)], dtype=object)

    def _vectors(self, sentences: Any) -> NDArray[np.float32]:
        members = self._members()
        embed = self._computed if self.url is None else self._served
        rows = embed(sentences, members)
        if not rows:
            (row,) = embed([["a"]], members)
            return np.empty((0, *row.shape), np.float32)
        return np.stack(rows).astype(np.float32, copy=False)

    def _served(self, sentences: Any, members: dict[str, Any]) -> list[NDArray[Any]]:
        model = None if self.model is None else str(self.model)
        with Client(str(self.url), api_key=self.api_key, model=model) as client:
            info = client.info()
            split = tokenizer(self.tokenizer or info["tokenizer"], info["language"])
            tokens = tokens_of(sentences, split)
            return client.embed(tokens, **members)

    def _computed(self, sentences: Any, members: dict[str, Any]) -> list[NDArray[Any]]:
        network = network_of(self.model or _DEFAULT_MODEL, self.precision)
        tokens = tokens_of(sentences, network.tokenizer(self.tokenizer))
        return LengthSorted(network, _output(members, network.info)).embed(tokens)

    def __sklearn_is_fitted__(self) -> bool:
        """Tell that nothing has to be learned before `transform`."""
        return True


def _output(members: Mapping[str, Any], info: ModelInfo) -> Output:
    if "task" in members:
        output = mixture(_task_at(Path(members["task"]), info), info.layers)
    elif "mix" in members:
        output = mixture(validated(Mix, members["mix"], "mix"), info.layers)
    else:
        output = select(members["layers"], info.layers)
    return replace(output, pooling=members["pooling"], normalize=members["normalize"])


def _task_at(path: Path, info: ModelInfo) -> TaskMembers:
    """Read a task file of a model. Raises ValueError for a wrong one or one of another revision."""
    try:
        body = load(path)
    except FileNotFoundError:
        raise ValueError(
            f"task is {shown(str(path))}, expected the path of a task file, or a url beside the "
            "name of a task of that server"
        ) from None
    except ServiceError as error:
        raise ValueError(f"{path}: {error}") from error
    if body.revision not in (None, info.revision):
        raise ValueError(
            f"{path}: is for revision {shown(body.revision)}, expected {info.revision} of the model"
        )
    return body


def network_of(model: str | Path, precision: str) -> InProcess:
    """Return one network for all vectorizers of a model: a grid search makes many.

    A file or folder that was replaced since is opened again.
    """
    return _network_of(str(model), precision, _stamps(Path(model)))


@lru_cache(maxsize=2)
def _network_of(model: str, precision: str, _stamps: Stamps) -> InProcess:
    return open_network(model, precision=precision)


def _stamps(path: Path) -> Stamps:
    """Return name, time in nanoseconds and size of a file, or of each file of a folder."""
    files = sorted(path.iterdir()) if path.is_dir() else [path] if path.is_file() else []
    found = ((file.name, file.stat()) for file in files)
    return tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in found)


def tokens_of(sentences: Any, split: Tokenize) -> list[list[str]]:
    """Return a list of tokens for each sentence; `split` splits a text.

    Logs a warning with the number of sentences without tokens. Raises CannotSend, a ValueError, for
    one text in place of several and for a table; ValueError for a sentence of another type.
    """
    check_several(sentences, "sentences", "a list of texts or of lists of tokens")
    found: list[list[str]] = []
    for number, sentence in enumerate(sentences):
        if not isinstance(sentence, str):
            check_sentence(sentence, f"sentence {number}", "a text or a list of tokens")
        tokens = split(sentence).tokens if isinstance(sentence, str) else sentence
        found.append(list(map(str, tokens)))
    if empty := found.count([]):
        _log.warning("sentences without tokens, whose vectors are zeros: %d", empty)
    return found
