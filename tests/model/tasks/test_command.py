"""`elmo fit` from its options to its files."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from elmo_model.models.opening import open_model
from elmo_model.tasks.command import FitCommand, encoder_source, fit
from elmo_model.tasks.comparison import digest
from elmo_model.tasks.examples import FitError
from elmo_model.tasks.fitter import FitOptions
from elmo_model.tasks.readers import read_examples
from elmo_model.text.tokenizers import tokenizer
from tests.support.checkpoints import poisoned_by, write_pair
from tests.support.servers import SMALL

WORDS = ("cat", "sat", "The", "mat")


def write_examples(path: Path, count: int, seed: int) -> list[tuple[str, list[str]]]:
    """Write sentences whose label is their first word; return labels and sentences."""
    source = np.random.default_rng(seed)
    sentences = [[WORDS[n] for n in source.integers(4, size=5)] for _ in range(count)]
    lines = [f"{words[0]}\t{' '.join(words)}" for words in sentences]
    path.write_text("\n".join(["label\tsentence", *lines, ""]), encoding="utf-8")
    return [(words[0], words) for words in sentences]


@pytest.fixture
def command(tmp_path: Path) -> FitCommand:
    write_examples(tmp_path / "train.tsv", 40, seed=0)
    return FitCommand(
        name="first",
        kind="sentence",
        label="label",
        train=tmp_path / "train.tsv",
        options=FitOptions(seeds=1, rounds=1),
    )


def fitted(command: FitCommand, model: str | Path = SMALL) -> Path:
    """Fit on a model in this process, and return the folder with the files of the task."""
    source = encoder_source(str(model), "cpu", "float32", layer_norm=command.options.layer_norm)
    fit(command, source).write(command.train.parent / "tasks")
    return command.train.parent / "tasks"


def test_the_score_of_the_report_is_that_of_task_and_head(
    command: FitCommand, tmp_path: Path
) -> None:
    """From the vectors of all layers alone: mixed by the task file, mapped by the stored head."""
    examples = write_examples(tmp_path / "test.tsv", 20, seed=1)

    out = fitted(replace(command, test=tmp_path / "test.tsv"))

    folder = out / "first.fit"
    task = json.loads((out / "first.json").read_text())
    report = json.loads((folder / "report.json").read_text())
    with safe_open(folder / "head.safetensors", "np") as head:
        labels = json.loads(head.metadata()["labels"])
        weight, bias = head.get_tensor("weight"), head.get_tensor("bias")
    shares = np.exp(task["weights"]) / np.exp(task["weights"]).sum()
    vectors = open_model(SMALL).embed([words for _, words in examples])
    right = 0
    for (label, _), layers in zip(examples, vectors, strict=True):
        vector = task["gamma"] * np.einsum("l,lnd->nd", shares, layers.numpy()).mean(0)
        right += labels[int((weight @ vector + bias).argmax())] == label
    found = report["mixtures"]["learned"]["scores"][0]["accuracy"]
    assert found == pytest.approx(right / len(examples))


@pytest.mark.parametrize(
    ("folder", "chosen", "usual"),
    [("seqvec", None, "characters"), ("mine", None, "moses"), ("seqvec", "ptb", "ptb")],
)
def test_text_is_split_as_the_service_splits_it(
    command: FitCommand, tmp_path: Path, folder: str, chosen: str | None, usual: str
) -> None:
    """By the model that lies at the path, unless a tokenizer is named."""
    shutil.copytree(SMALL, tmp_path / folder)
    text = "".join(f"{word}\tI don't see the {word}.\n" for word in WORDS * 8)
    (tmp_path / "train.tsv").write_text(f"label\ttext\n{text}")

    out = fitted(replace(command, tokenizer=chosen), tmp_path / folder)

    task = json.loads((out / "first.json").read_text())
    expected = read_examples(tmp_path / "train.tsv", "sentence", "label", tokenizer(usual))
    assert task["fit"]["data"] == digest(expected)


def test_a_model_whose_vectors_are_not_finite_is_refused(
    command: FitCommand, tmp_path: Path
) -> None:
    model = poisoned_by(write_pair(tmp_path / "model"), "~")
    command.train.write_text("label\tsentence\n" + "x\tThe cat\ny\tThe ~ sat\n" * 20)

    with pytest.raises(FitError, match="the vectors of 'The ~ sat' are not finite"):
        fitted(command, model)
