"""The native format: one file that describes itself."""

import json
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from elmo_model.checkpoints import CheckpointError, load, save
from elmo_model.checkpoints.published_pair import write
from elmo_model.network.description import Centre, Description, Trained
from tests.support import golden
from tests.support.checkpoints import write_pair

SENTENCES = [["convert", "me"], [], ["naïve", ""]]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    save(load(write_pair(tmp_path / "pair")), path)
    return path


@pytest.mark.parametrize("source", ["golden", "odd"])
def test_every_bit_survives_from_pair_to_file_to_pair(tmp_path: Path, source: str) -> None:
    folder = golden.SMALL
    if source == "odd":
        odd: dict[str, Any] = {"cell": 4, "projection": 4, "layers": 3, "highways": 0}
        odd |= {"skip": False, "activation": "tanh", "cell_clip": None}
        folder = write_pair(tmp_path / "odd", **odd)
    pair = load(folder)
    save(pair, tmp_path / "file.safetensors")
    file = load(tmp_path / "file.safetensors")
    write(file, tmp_path / "back")
    back = load(tmp_path / "back")
    assert file.origin.format == "native" and file.origin.name == pair.origin.name
    assert pair.origin.revision == file.origin.revision == back.origin.revision
    expected = pair.embed(SENTENCES)
    for other in (file, back):
        assert other.config == pair.config
        for name, tensor in pair.state_dict().items():
            assert torch.equal(other.state_dict()[name], tensor), name
        for one, two in zip(other.embed(SENTENCES), expected, strict=True):
            assert torch.equal(one, two)


def test_16_bit_files_are_read_as_float32(tmp_path: Path) -> None:
    elmo = load(write_pair(tmp_path / "pair"))
    save(elmo, tmp_path / "half.safetensors", torch.float16)
    half = load(tmp_path / "half.safetensors")
    save(elmo, tmp_path / "full.safetensors")
    saved = (tmp_path / "full.safetensors").stat().st_size
    assert saved - (tmp_path / "half.safetensors").stat().st_size >= 2 * elmo.config.parameter_count
    for name, tensor in elmo.state_dict().items():
        assert half.state_dict()[name].dtype == torch.float32
        torch.testing.assert_close(half.state_dict()[name], tensor, rtol=1e-3, atol=1e-4)
    assert half.origin.revision != elmo.origin.revision


def test_a_loaded_network_does_not_depend_on_the_file(saved: Path) -> None:
    elmo = load(saved)
    expected = elmo.embed(SENTENCES)
    saved.write_bytes(b"\0" * saved.stat().st_size)
    assert torch.equal(elmo.embed(SENTENCES)[0], expected[0])


def test_the_description_is_kept_and_the_revision_does_not_cover_it(tmp_path: Path) -> None:
    elmo = load(write_pair(tmp_path / "pair"))
    layers = torch.rand(elmo.config.layers, elmo.config.dimension).numpy()
    stated = Description("ptb", "sl", Centre("held.txt", 9_000, layers), Trained(2_000, 31.5))
    revision = elmo.origin.revision
    elmo.origin = replace(elmo.origin, description=stated)

    save(elmo, tmp_path / "described.safetensors")
    origin = load(tmp_path / "described.safetensors").origin

    assert origin.revision == revision
    found = origin.description
    assert replace(found, centre=None) == replace(stated, centre=None)
    assert found.centre is not None and (found.centre.text, found.centre.tokens) == (
        "held.txt",
        9_000,
    )
    np.testing.assert_array_equal(found.centre.layers, layers)
    header = _header(tmp_path / "described.safetensors")
    assert header["format_version"] == "1" and {"tokenizer", "trained"} <= header.keys()


def _header(path: Path) -> dict[str, str]:
    with safe_open(path, framework="pt") as file:
        return dict(file.metadata())


def test_a_network_that_is_not_float32_is_not_saved(saved: Path) -> None:
    with pytest.raises(CheckpointError, match="float32"):
        save(load(saved).double(), saved)


Header = dict[str, str]


def changed(path: Path, header: Callable[[Header], object]) -> None:
    """Write the file again with another header."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    metadata: Header = json.loads(content[8 : 8 + length])["__metadata__"]
    header(metadata)
    save_file(load_file(path), path, metadata=metadata)


def config(path: tuple[str, str], value: Any) -> Callable[[Header], object]:
    """Change one value of the configuration in a header."""

    def change(header: Header) -> None:
        values = json.loads(header["config"])
        values[path[0]][path[1]] = value
        header["config"] = json.dumps(values)

    return change


HEADERS: dict[str, tuple[Callable[[Header], object], str]] = {
    "foreign": (lambda h: h.update(format="pt"), "'pt'"),
    "later": (lambda h: h.update(format_version="2"), "format_version"),
    "no config": (lambda h: h.pop("config"), "config: is not JSON"),
    "alphabet": (lambda h: h.update(alphabet='{"kind": "runes"}'), "runes"),
    "alphabet length": (
        lambda h: h.update(alphabet='{"kind": "utf8", "max_characters": 20}'),
        "expected 20",
    ),
    "endless": (config(("lstm", "layers"), 10**6), r"layers\.2\..* is missing"),
    "fewer": (config(("lstm", "layers"), 1), r"layers\.1\..* is found"),
    "cell": (config(("lstm", "cell"), 16), r"expected \(64,\)"),
    "tasks": (lambda h: h.update(tasks="["), "tasks is not JSON"),
    "no name": (lambda h: h.update(tasks='[{"weights": [1, 2, 3]}]'), "name is missing"),
    "few weights": (lambda h: h.update(tasks='[{"name": "a", "weights": [1]}]'), "finite"),
    "not finite": (lambda h: h.update(tasks='[{"name": "a", "weights": [1, NaN, 3]}]'), "finite"),
    "tokenizer": (lambda h: h.update(tokenizer="bpe"), "bpe"),
    "trained": (lambda h: h.update(trained='{"tokens": "2"}'), "trained.tokens"),
    "centre": (
        lambda h: h.update(centre='{"text": "a", "tokens": 1, "layers": "AAAA"}'),
        "3 bytes",
    ),
    "key": (config(("lstm", "colour"), 1), "lstm.colour"),
}


@pytest.mark.parametrize(("change", "message"), HEADERS.values(), ids=HEADERS.keys())
def test_a_wrong_header_is_refused_in_one_line(
    saved: Path, change: Callable[[Header], object], message: str
) -> None:
    changed(saved, change)
    with pytest.raises(CheckpointError, match=message) as refusal:
        load(saved)
    assert "\n" not in str(refusal.value) and str(saved) in str(refusal.value)


def test_tensors_of_another_type_are_refused(saved: Path) -> None:
    content = saved.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    metadata = json.loads(content[8 : 8 + length])["__metadata__"]
    tensors = load_file(saved)
    name = "bilm.forward_stack.layers.0.bias"
    save_file({**tensors, name: tensors[name].double()}, saved, metadata=metadata)
    with pytest.raises(CheckpointError, match="F64"):
        load(saved)
