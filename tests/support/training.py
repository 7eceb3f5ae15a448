"""Training in tests: golden steps, runs of milliseconds a step, encoded text, a language model.

The golden data are six training steps of bilm-tf's graph on TensorFlow.
"""

import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from elmo_model.checkpoints import load, published_pair
from elmo_model.network.elmo import ElmoNetwork
from elmo_model.text.alphabets import Utf8Alphabet
from elmo_model.training import snapshot
from elmo_model.training.batches import Batch, Direction
from elmo_model.training.corpus import Corpus, encode
from elmo_model.training.language_model import LanguageModel
from elmo_model.training.options import REFERENCE, Options
from elmo_model.training.sampled_softmax import Softmax
from elmo_model.training.snapshot import Snapshot
from elmo_model.training.vocabulary import Vocabulary
from tests.support.checkpoints import read_pair, write_pair

FOLDER = Path(__file__).parents[1] / "golden" / "bilm_training"
CHAR = FOLDER / "char"
ROWS, STEPS = 3, 5

Arrays = dict[str, np.ndarray[Any, Any]]


def arrays(name: str) -> Arrays:
    with np.load(FOLDER / f"{name}.npz") as file:
        return dict(file)


def log() -> dict[str, Any]:
    return dict(json.loads((CHAR / "log.json").read_text(encoding="utf-8")))


def vocabulary() -> Vocabulary:
    return Vocabulary.read(FOLDER / "vocab.txt")


def sentences(name: str) -> list[list[str]]:
    return [line.split() for line in (FOLDER / name).read_text(encoding="utf-8").splitlines()]


def first_model(folder: Path) -> LanguageModel:
    """Return the language model with the initial weights; `folder` holds temporary files."""
    pair = folder / "first"
    pair.mkdir()
    (pair / "options.json").write_bytes((CHAR / "options.json").read_bytes())
    (pair / "weights.hdf5").write_bytes((CHAR / "dumped_init.hdf5").read_bytes())
    elmo = load(pair)
    stored = arrays("char/weights_init")
    softmax = Softmax(*stored["lm/softmax/W"].shape)
    softmax.load_state_dict(
        {
            "weight": torch.from_numpy(stored["lm/softmax/W"]),
            "bias": torch.from_numpy(stored["lm/softmax/b"]),
        }
    )
    return LanguageModel(elmo, softmax, dropout=0.0).train()


def batch(number: int) -> Batch:
    """Return one of the six batches that were fed, for the full softmax."""
    stored = arrays("char/batches")
    sides = "", "_reverse"
    # bilm-tf feeds training with ids that are not shifted by one
    ids = [stored[f"{number}/tokens_characters{side}"] + 1 for side in sides]
    distinct, index = np.unique(np.stack(ids).reshape(-1, 16), axis=0, return_inverse=True)
    forward, backward = (
        Direction.of(
            index.reshape(2, ROWS, STEPS)[direction],
            stored[f"{number}/next_token_id{side}"].astype(np.int64),
        )
        for direction, side in enumerate(sides)
    )
    characters = torch.from_numpy(distinct.astype(np.int64))
    return Batch((characters,), (forward, backward), ())


def published(elmo: ElmoNetwork, folder: Path) -> Arrays:
    """Return the weights of a network by their names in a TensorFlow checkpoint."""
    published_pair.write(elmo, folder)
    _, datasets = read_pair(folder)
    return {_graph_name(name): value for name, value in datasets.items()}


def with_numbers(elmo: ElmoNetwork, numbers: dict[str, torch.Tensor]) -> ElmoNetwork:
    """Return a network of the same configuration with other weights."""
    other = ElmoNetwork(elmo.config, Utf8Alphabet(16), elmo.origin)
    other.load_state_dict(numbers)
    return other


def _graph_name(dataset: str) -> str:
    for ours, theirs in (
        ("/RNN/MultiRNNCell/", "/rnn/multi_rnn_cell/"),
        ("/Cell", "/cell_"),
        ("/LSTMCell/", "/lstm_cell/"),
        ("lstm_cell/W_0", "lstm_cell/kernel"),
        ("lstm_cell/B", "lstm_cell/bias"),
        ("lstm_cell/W_P_0", "lstm_cell/projection/kernel"),
    ):
        dataset = dataset.replace(ours, theirs)
    return f"lm/{dataset}"


def corpus_of(sentences: Sequence[Sequence[str]]) -> Corpus:
    """Encode sentences, none of them empty, as one shard; its files are deleted while mapped."""
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "text.txt"
        text.write_text("".join(f"{' '.join(words)}\n" for words in sentences), encoding="utf-8")
        return encode([text], Path(folder) / "corpus", lambda _: None)


def write_bundle(folder: Path) -> Path:
    """Write the checkpoint as TensorFlow saved it; return the folder."""
    shutil.copytree(FOLDER.parent / "tensorflow" / "bilm_tf", folder)
    shutil.copy(FOLDER / "vocab.txt", folder)
    return folder


TEXT = str(FOLDER / "train.txt")
HELDOUT = FOLDER / "heldout.txt"
SENTENCES = [["of", "it", "東京"], [], ["unheard-of"]]


def options(tmp_path: Path, run: str, **changed: Any) -> Options:
    """Return the options of a run of 12 steps with 20 tokens each."""
    shape = tmp_path / "shape"
    if not shape.exists():
        write_pair(shape)
    usual: dict[str, Any] = {
        **(REFERENCE if changed.pop("recipe", "modern") == "reference" else {}),
        "run": tmp_path / run,
        "text": (TEXT,),
        "heldout": HELDOUT,
        "shape": str(shape),
        "steps": 12,
        "rows": 4,
        "unroll": 5,
        "samples": 8,
        "vocabulary_size": 30,
        "name": "tested",
        "device": "cpu",
        "log_every": 1,
        "measure_every": 6,
        "save_every": 4,
    }
    return Options(**{**usual, **changed})


def lines(run: Path) -> list[dict[str, Any]]:
    """Return the lines of a run's log."""
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


def losses(run: Path) -> list[tuple[int, float, float]]:
    """Return step, forward loss and backward loss of every line about training."""
    training = [line for line in lines(run) if "loss" in line]
    return [(line["step"], line["loss_forward"], line["loss_backward"]) for line in training]


def last_snapshot(run: Path) -> Path:
    """Return the last snapshot of a run."""
    path = snapshot.latest(run / "snapshots")
    assert path is not None
    return path


def weights(run: Path) -> dict[str, torch.Tensor]:
    """Return the weights of a run's last snapshot."""
    return Snapshot.read(last_snapshot(run)).weights
