"""A run: its options, its folder, its log, its snapshots and its export."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from elmo_model.checkpoints import load
from elmo_model.errors import ElmoError
from elmo_model.models.opening import open_model
from elmo_model.network.description import Trained
from elmo_model.network.state import State
from elmo_model.training import TrainingError
from elmo_model.training.command import train
from elmo_model.training.log import RunLog, read, shown
from elmo_model.training.options import Options
from elmo_model.training.run_folder import Folder, Run, trained_model
from elmo_model.training.snapshot import Snapshot, latest
from tests.support import reference
from tests.support.checkpoints import read_pair
from tests.support.training import (
    HELDOUT,
    SENTENCES,
    TEXT,
    last_snapshot,
    lines,
    losses,
    options,
)


def test_another_recipe_is_refused_in_a_folder_that_has_one(tmp_path: Path) -> None:
    chosen = options(tmp_path, "run", steps=2, heldout=None)
    train(chosen)
    with pytest.raises(ElmoError, match=r"dropout 0\.1, found 0\.2"):
        train(replace(chosen, dropout=0.2))
    with pytest.raises(
        ElmoError, match=r"has done 2 steps of 20 tokens, .* asks for 1; expected 2"
    ):
        train(replace(chosen, steps=1))


def test_the_key_that_differs_is_named(whole: Options, tmp_path: Path) -> None:
    (other := tmp_path / "other.txt").write_text("Other words altogether .\n")
    changed = {
        "config.lstm": replace(whole, cell=3),
        "text": replace(whole, text=(str(other),)),
        "rows": replace(whole, rows=2, steps=1),  # before the number of steps
    }
    for key, chosen in changed.items():
        with pytest.raises(ElmoError, match=f"has {key}"):
            train(chosen)


@pytest.mark.parametrize("change", [{}, {"vocabulary_size": 29}])
def test_a_refused_command_changes_nothing(
    copied: Options, tmp_path: Path, change: dict[str, Any]
) -> None:
    def contents() -> dict[Path, bytes]:
        files = (path for path in copied.run.rglob("*") if path.is_file())
        return {path: path.read_bytes() for path in files if path.name != ".lock"}

    before = contents()
    other = tmp_path / "other.txt"
    other.write_text("Other words altogether .\n" * 9)
    text = copied.text if change else (str(other),)

    with pytest.raises(ElmoError, match="expected the same, or another folder"):
        train(replace(copied, text=text, **change))

    assert contents() == before


def test_other_text_of_the_same_name_size_and_words_is_refused(tmp_path: Path) -> None:
    """The words in another order give the same vocabulary; text written again is no other text."""
    text, content = tmp_path / "text.txt", Path(TEXT).read_text()
    text.write_text(content)
    first = options(tmp_path, "run", text=(str(text),), steps=1, heldout=None)
    train(first)
    longer = replace(first, steps=2)
    text.write_text("".join(reversed(content.splitlines(keepends=True))))
    with pytest.raises(ElmoError, match="run: the run here reads other text in files of the same"):
        train(longer)
    text.write_text(content)
    train(longer)
    assert Snapshot.read(last_snapshot(longer.run)).step == 2


def test_a_folder_that_was_renamed_is_continued(tmp_path: Path) -> None:
    """A name decides no number; without `--name` it is that of the folder."""
    chosen = options(tmp_path, "old", name="", steps=1, heldout=None)
    train(chosen)
    moved = replace(chosen, run=chosen.run.rename(tmp_path / "new"))
    train(moved)
    assert Folder(moved.run).read().options.name == "new"
    assert load(moved.run / "model.safetensors").origin.name == "new"


def test_the_export_holds_the_trained_network(whole: Options) -> None:
    model, vocabulary = trained_model(Folder(whole.run))
    native, published = load(whole.run / "model.safetensors"), load(whole.run / "published")
    assert native.origin.name == "tested" and len(vocabulary) == 30
    vectors = zip(*(elmo.embed(SENTENCES) for elmo in (model.elmo, native, published)), strict=True)
    options_file, datasets = read_pair(whole.run / "published")
    for sentence, layers in zip(SENTENCES, published.embed(SENTENCES), strict=True):
        expected, _ = reference.representations(sentence, options_file, datasets)
        np.testing.assert_allclose(layers, expected[:, 1:-1], rtol=0, atol=1e-5)
    for trained, ours, theirs in vectors:
        torch.testing.assert_close(trained, ours, rtol=0, atol=1e-6)
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


def test_a_run_that_an_earlier_version_began_is_continued(whole: Options, tmp_path: Path) -> None:
    """Its run.json had a recipe in it."""
    broken = options(tmp_path, "broken", heldout=None, minutes=0.0)
    train(broken)
    place = broken.run / "run.json"
    content = json.loads(place.read_text())
    now = content.pop("options")
    recipe = (
        *("optimiser", "learning_rate", "schedule", "clip_norm", "scale_by_unroll", "fresh"),
        *("warmup", "warmup_steps", "decay", "floor", "weight_decay", "average", "matrix_rate"),
        *("softmax_bias", "samples", "softmax_steps", "recurrent_noise", "dropout", "rows"),
        *("unroll", "epochs"),
    )
    stated = ("name", "seed", "precision", "threads")
    content |= {"recipe": {key: now[key] for key in recipe} | {"mixed": True}}
    content |= {"text": content.pop("files"), "weights": content.pop("revision")}
    place.write_text(json.dumps(content | {key: now[key] for key in stated}))

    with pytest.raises(TrainingError, match=r"has dropout 0\.1, found 0\.2"):
        train(replace(broken, dropout=0.2))
    train(replace(broken, minutes=None))

    assert losses(broken.run) == losses(whole.run)


def test_a_folder_without_a_run_or_a_snapshot_is_refused(whole: Options, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "model.safetensors"):
        with pytest.raises(TrainingError, match="expected the folder of a run of elmo train"):
            Folder(path).read()
    (tmp_path / "run.json").write_text('{"name": "run"}')
    with pytest.raises(TrainingError, match="holds no run that this version reads"):
        Folder(tmp_path).read()
    shutil.copy(whole.run / "run.json", tmp_path)
    with pytest.raises(TrainingError, match="holds no snapshot yet"):
        trained_model(Folder(tmp_path))


def test_a_line_holds_means_since_the_last_line(tmp_path: Path) -> None:
    chosen, told = options(tmp_path, "run"), list[str]()
    run = replace(Run.of(chosen, chosen.config(), ()), steps=364)
    log = RunLog(tmp_path / "log.jsonl", run, 2, 10.0, told.append)
    log.add(torch.tensor([1.0, 3.0]), torch.tensor(4.0))
    log.add(torch.tensor([3.0, 5.0]), torch.tensor(6.0))
    line = log.line(4, 12.0)
    assert (line["loss_forward"], line["loss_backward"], line["loss"]) == (2.0, 4.0, 3.0)
    assert line["gradient_norm"] == 5.0 and line["tokens"] == 80
    assert line["tokens_per_second"] == pytest.approx(20.0)
    log.write(line)
    assert read(tmp_path / "log.jsonl") == [line]
    # 360 steps of 20 tokens at 20 tokens/s
    figures = "20 tokens/s  loss 2.000 forward, 4.000 backward"
    assert told == [f"4/364  {figures}  0:06:00 left"]
    assert shown(line, 4) == figures
    log.add(torch.tensor([1.0, 1.0]), torch.tensor(1.0))
    assert log.line(5, 13.0)["loss"] == 1.0


def test_the_last_two_are_kept_and_a_damaged_one_is_refused(copied: Options) -> None:
    path = last_snapshot(copied.run)
    assert sorted(p.stem for p in path.parent.iterdir()) == ["000000008", "000000012"]
    whole = path.read_bytes()
    for content in (b"", b"hello world", bytes(999), whole[:5000]):
        path.write_bytes(content)
        with pytest.raises(TrainingError, match=r"000000012\.pt: is damaged .* delete it"):
            Snapshot.read(path)
    torch.save({"version": 0}, path)
    with pytest.raises(TrainingError, match="version is 0"):
        Snapshot.read(path)


def test_a_snapshot_whose_numbers_are_damaged_is_refused(tmp_path: Path) -> None:
    numbers = torch.arange(1000.0)
    path = Snapshot(3, 0.5, {"w": numbers}, {}, {}, State(numbers, numbers), ()).write(tmp_path)
    content = path.read_bytes()
    place = content.index(numbers.numpy().tobytes()) + 100
    path.write_bytes(content[:place] + b"\xff" + content[place + 1 :])
    with pytest.raises(TrainingError, match=r"000000003\.pt: is damaged or no snapshot"):
        Snapshot.read(path)


@pytest.mark.parametrize("change", [{"step": ...}, {"cursors": ...}, {"cursors": [{"cycle": 0}]}])
def test_a_snapshot_without_a_part_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    nothing = torch.zeros(1)
    Snapshot(3, 0.5, {}, {}, {}, State(nothing, nothing), ()).write(tmp_path)
    path = latest(tmp_path)
    assert path is not None
    content = {**torch.load(path, weights_only=True), **change}
    torch.save({key: value for key, value in content.items() if value is not ...}, path)
    with pytest.raises(TrainingError, match=r"000000003\.pt: is damaged or no snapshot: lacks '"):
        Snapshot.read(path)


def test_a_run_states_how_its_text_was_split_and_what_it_learned(copied: Options) -> None:
    first = open_model(copied.run).origin.description
    train(replace(copied, name="english", tokenizer="ptb", language="nn"))
    chosen = open_model(copied.run).origin.description
    train(replace(copied, name="english"))  # the same run goes on with what it was told
    again = open_model(copied.run).origin
    told = list[str]()
    train(replace(copied, name="english", tokenizer="moses", language="nn"), told.append)
    back = open_model(copied.run).origin

    assert (first.tokenizer, first.language) == ("moses", "en")
    assert first.trained == Trained(240, lines(copied.run)[-1]["heldout_perplexity"])
    assert (chosen.tokenizer, chosen.language) == ("ptb", "nn")
    assert (again.description.tokenizer, again.description.language) == ("ptb", "nn")
    assert (back.name, back.description.tokenizer, back.description.language) == (
        *("english", "moses"),
        "nn",
    )
    assert again.revision == back.revision
    assert any("'nn'" in line for line in told)


def test_the_centre_of_a_run_is_the_mean_of_its_heldout_text(whole: Options) -> None:
    elmo = open_model(whole.run)
    text = [line.split() for line in HELDOUT.read_text(encoding="utf-8").splitlines() if line]

    centre = elmo.origin.description.centre

    assert centre is not None and centre.text == HELDOUT.name
    assert centre.tokens == sum(map(len, text))
    expected = torch.cat(elmo.embed(text), dim=1).double().mean(dim=1)
    # float32 sums in another order
    np.testing.assert_allclose(centre.layers, expected.numpy(), rtol=1e-4, atol=1e-6)


def test_a_run_from_weights_states_the_tokenizer_of_the_weights(tmp_path: Path) -> None:
    chosen = options(tmp_path, "run", shape=None, weights="english", steps=1, softmax_steps=1)
    network = chosen.network()

    found = Run.of(chosen, chosen.config(network), [Path(TEXT)], network).options

    assert (found.tokenizer, found.language) == ("ptb", "en")
