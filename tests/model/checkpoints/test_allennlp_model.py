"""Models trained with AllenNLP: their biLM, and their mixes as tasks."""

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from elmo_model.checkpoints import CheckpointError, load, read, save
from elmo_model.network.elmo import ElmoNetwork
from tests.support.checkpoint_formats import MIXES, PREFIX, archive, state_of
from tests.support.checkpoints import write_pair

SENTENCES = [["The", "cat", "sat"], [], ["naïve", "", "x" * 60]]


def config(options_file: str | None = "https://x/elmo_options.json", **embedder: Any) -> str:
    members = {"type": "elmo_token_embedder"} | (
        {"options_file": options_file} if options_file else {}
    )
    embedders = {"tokens": {"type": "embedding"}, "elmo": {**members, **embedder}}
    return json.dumps({"model": {"text_field_embedder": {"token_embedders": embedders}}})


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    return write_pair(tmp_path / "pair", highways=2)


def assert_same_vectors(one: ElmoNetwork, two: ElmoNetwork) -> None:
    for mine, theirs in zip(one.embed(SENTENCES), two.embed(SENTENCES), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-5)


def test_the_bilm_of_an_archive_equals_the_pair(pair: Path, tmp_path: Path) -> None:
    path = archive(tmp_path / "ner-2019.tar.gz", state_of(pair), {"config.json": config()})
    elmo = load(path)
    assert (elmo.origin.name, elmo.origin.format) == ("ner-2019", "allennlp-archive")
    assert elmo.config == load(pair).config
    assert_same_vectors(elmo, load(pair))


def test_trained_mixes_are_tasks(pair: Path, tmp_path: Path) -> None:
    tasks = load(archive(tmp_path / "srl.tar.gz", state_of(pair, mixes=2))).tasks
    assert [task.name for task in tasks] == ["srl-0", "srl-1"]
    for number, task in enumerate(tasks):
        assert (list(task.weights), task.gamma) == MIXES[number]
        assert not task.layer_norm and f"scalar_mix_{number}" in task.description
    (only,) = load(archive(tmp_path / "my tägger.tar.gz", state_of(pair))).tasks
    assert only.name == "my-t-gger"


@pytest.mark.parametrize("options_file", ["https://x/elmo_options.json", None])
@pytest.mark.parametrize("kind", ["elmo_token_embedder", "my-elmo"])
def test_layer_norm_is_read_from_the_configuration(
    pair: Path, tmp_path: Path, options_file: str | None, kind: str
) -> None:
    """From AllenNLP 1.0 on the embedder has default values for its two files."""
    text = config(options_file, do_layer_norm=True, type=kind)
    (task,) = load(archive(tmp_path / "a.tar.gz", state_of(pair), {"config.json": text})).tasks
    assert task.layer_norm


def test_the_native_format_keeps_the_tasks(pair: Path, tmp_path: Path) -> None:
    elmo = load(archive(tmp_path / "a.tar.gz", state_of(pair, mixes=2)))
    save(elmo, tmp_path / "a.safetensors")
    again = load(tmp_path / "a.safetensors")
    assert again.tasks == elmo.tasks and again.origin.revision == elmo.origin.revision
    save(load(pair), tmp_path / "b.safetensors")
    assert load(tmp_path / "b.safetensors").tasks == ()


@pytest.mark.parametrize("file", ["weights.th", "best.th", "model.pt"])
def test_a_folder_and_a_file_of_weights_are_read(pair: Path, tmp_path: Path, file: str) -> None:
    folder = tmp_path / "run-7"
    folder.mkdir()
    torch.save(state_of(pair), folder / file, _use_new_zipfile_serialization=file == "best.th")
    (folder / "config.json").write_text(config(do_layer_norm=True))
    for place in (folder, folder / file):
        elmo = load(place)
        assert elmo.origin.name == "run-7" and elmo.tasks[0].layer_norm
        assert_same_vectors(elmo, load(pair))


def test_a_model_that_uses_a_pair_is_not_taken_for_its_weights(pair: Path) -> None:
    torch.save({"tagger.weight": torch.zeros(3)}, pair / "model.pt")
    assert load(pair).origin.format == "allennlp"


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_floats_of_other_sizes_are_cast(pair: Path, tmp_path: Path, dtype: torch.dtype) -> None:
    state = {name: tensor.to(dtype) for name, tensor in state_of(pair).items()}
    elmo = load(archive(tmp_path / "a.tar.gz", {"state_dict": state, "epoch": 3}))
    expected = load(pair)
    for mine, theirs in zip(elmo.parameters(), expected.parameters(), strict=True):
        # half an ulp of float16 below 4, and the forget bias is stored as a sum
        torch.testing.assert_close(mine, theirs, rtol=0, atol=2e-3 if dtype.itemsize == 2 else 1e-7)


@pytest.mark.parametrize("prefix", ["", "_elmo.", "model.encoder.elmo._elmo."])
def test_the_prefix_is_found_by_what_follows_it(pair: Path, tmp_path: Path, prefix: str) -> None:
    elmo = load(archive(tmp_path / "a.tar.gz", state_of(pair, prefix)))
    assert_same_vectors(elmo, load(pair))


def test_options_in_the_archive_are_used(tmp_path: Path) -> None:
    pair = write_pair(
        tmp_path / "pair", activation="tanh", cell_clip=0.5, projection_clip=0.25, gain=3
    )
    text = (pair / "options.json").read_text()
    key = "fta/model.text_field_embedder.token_embedders.elmo.options_file"
    for files in ({key: text}, {"elmo_options.json": text, "config.json": config()}):
        path = archive(tmp_path / "a.tar.gz", state_of(pair), files)
        assert read(path).notes == ()
        assert load(path).config == load(pair).config
        assert_same_vectors(load(path), load(pair))


def test_without_options_the_published_values_are_assumed_with_a_note(
    pair: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = archive(tmp_path / "a.tar.gz", state_of(pair), {"config.json": config()})
    (note,) = read(path).notes
    assert "holds no options file; clips of 3, relu and 50 characters a token were assumed" in note
    load(path)
    assert note in caplog.text


State = dict[str, Tensor]
LAYER = f"{PREFIX}_elmo_lstm._elmo_lstm.forward_layer_0"
DAMAGE: dict[str, tuple[Callable[[State], object], str]] = {
    "no ELMo": (lambda s: s.clear(), "holds no ELMo"),
    "two": (
        lambda s: s.update({"b._elmo_lstm._token_embedder._char_embedding_weights": torch.ones(1)}),
        "holds 2 ELMos",
    ),
    "no bias": (lambda s: s.pop(f"{LAYER}.state_linearity.bias"), "bias is missing"),
    "no filters": (lambda s: [s.pop(name) for name in list(s) if "char_conv" in name], "filters"),
    "mix": (lambda s: s.pop(f"{PREFIX}scalar_mix_0.scalar_parameters.2"), "2 is missing"),
    "unexpected": (lambda s: s.update({f"{LAYER}.colour": torch.ones(1)}), "colour"),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_archive_is_refused_in_one_line(
    pair: Path, tmp_path: Path, damage: Callable[[State], object], message: str
) -> None:
    state = state_of(pair)
    damage(state)
    with pytest.raises(CheckpointError, match=message) as refusal:
        load(archive(tmp_path / "a.tar.gz", state))
    assert "\n" not in str(refusal.value) and "a.tar.gz:weights.th" in str(refusal.value)


def test_options_that_contradict_the_tensors_are_named(pair: Path, tmp_path: Path) -> None:
    options = json.loads((pair / "options.json").read_text())
    options["lstm"]["dim"] = 9
    files = {"fta/options_file": json.dumps(options)}
    with pytest.raises(CheckpointError, match="fta/options"):
        load(archive(tmp_path / "a.tar.gz", state_of(pair), files))
    with pytest.raises(CheckpointError, match=r"config\.json"):
        load(archive(tmp_path / "a.tar.gz", state_of(pair), {"config.json": "{"}))


def test_links_and_paths_in_an_archive_reach_nothing(pair: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.th"
    torch.save(state_of(pair), secret)
    path = tmp_path / "in" / "a.tar.gz"
    path.parent.mkdir()
    with tarfile.open(path, "w:gz") as tar:
        link = tarfile.TarInfo("weights.th")
        link.type, link.linkname = tarfile.SYMTYPE, str(secret)
        tar.addfile(link)
        outside = tarfile.TarInfo("../weights.th")
        outside.size = 3
        tar.addfile(outside, io.BytesIO(b"abc"))
    with pytest.raises(CheckpointError, match="holds no weights"):
        load(path)
    assert [each.name for each in path.parent.iterdir()] == ["a.tar.gz"]
    assert not (tmp_path / "weights.th").exists()
