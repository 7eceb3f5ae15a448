"""Models of ELMoForManyLangs: the outputs of its Embedder, and the traps of its files."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from elmo_model.checkpoints import CheckpointError, elmoformanylangs, load, published_pair, save
from elmo_model.checkpoints.source import in_folder
from elmo_model.text.alphabets import Lexicon
from tests.support import golden

HOME = golden.GOLDEN / "elmoformanylangs"
VARIANTS = ("word_and_char", "char_only")
MODEL_FILES = (
    "config.json",
    "cnn_tiny.json",
    "char.dic",
    "word.dic",
    "token_embedder.pkl",
    "encoder.pkl",
)


def sentences(call: str = "sentences") -> list[list[str]]:
    return list(json.loads((HOME / "sentences.json").read_text(encoding="utf-8"))[call])


def answer(variant: str, name: str) -> golden.Array:
    return np.asarray(np.load(HOME / variant / f"{name}.npy"))


def assert_near(found: Tensor, expected: golden.Array) -> None:
    assert tuple(found.shape) == expected.shape
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=5e-5)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the model with words and characters, without its outputs."""
    return copy("word_and_char", tmp_path / "136")


def copy(variant: str, target: Path) -> Path:
    target.mkdir()
    for name in MODEL_FILES:
        shutil.copy(HOME / variant / name, target / name)
    return target


@pytest.mark.parametrize("variant", VARIANTS)
def test_vectors_equal_those_of_a_fresh_embedder(variant: str) -> None:
    elmo = load(HOME / variant)
    for number, layers in enumerate(elmo.embed(sentences())):
        assert_near(layers, answer(variant, f"first_call_s{number}_all"))


@pytest.mark.parametrize("variant", VARIANTS)
def test_carried_state_equals_the_second_call_of_an_embedder(variant: str) -> None:
    elmo = load(HOME / variant)
    with torch.inference_mode():
        # Row r of the state belongs to the r-th longest sentence of a call.
        _, state = elmo(sorted(sentences(), key=len, reverse=True))
        second = sentences("second_call")
        order = sorted(range(len(second)), key=lambda row: -len(second[row]))
        representations, _ = elmo([second[row] for row in order], state)
    for number, layers in zip(order, representations.sentences(), strict=True):
        assert_near(layers[:, 1:-1], answer(variant, f"second_call_s{number}_all"))
    stateless = elmo.embed([second[0]])[0]
    assert (stateless - torch.from_numpy(answer(variant, "second_call_s0_all"))).abs().max() > 0.1


@pytest.mark.parametrize("variant", VARIANTS)
def test_ids_equal_those_of_the_tool(variant: str) -> None:
    ids = np.load(HOME / variant / "batch_ids.npz")
    alphabet = load(HOME / variant).alphabet
    assert isinstance(alphabet, Lexicon)
    every = sentences()
    for row, number in enumerate(ids["order"]):
        words = [alphabet.begin, *every[number], alphabet.end]
        spelt = ids["char_ids"][row, : len(words)]
        np.testing.assert_array_equal(alphabet.encode(words, spelt.shape[1]), spelt)
        if alphabet.words:
            expected = ids["word_ids"][row, : len(words)]
            np.testing.assert_array_equal(alphabet.word_ids(words), expected)


def test_a_word_input_model_projects_the_row_of_the_word(folder: Path) -> None:
    words_only(folder)
    elmo = load(folder)
    assert elmo.config.char_cnn is None
    stored = pickled(folder / "token_embedder.pkl")
    table, matrix = stored["word_emb_layer.embedding.weight"], stored["projection.weight"]
    ids = {"hello": 5, "stranger": 0}
    words = dict(line.split("\t") for line in (folder / "word.dic").read_text().splitlines())
    ids["hello"] = int(words["hello"])
    for word, row in ids.items():
        expected = matrix @ table[row] + stored["projection.bias"]
        token_layer = elmo.embed([[word]])[0][0, 0]
        torch.testing.assert_close(token_layer, torch.cat((expected, expected)))
    assert torch.equal(elmo.embed([["oov1"]])[0], elmo.embed([["oov2"]])[0])


def test_the_native_format_keeps_every_bit(folder: Path, tmp_path: Path) -> None:
    elmo = load(folder)
    save(elmo, tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    assert again.config == elmo.config and again.alphabet == elmo.alphabet
    assert again.origin.revision == elmo.origin.revision
    assert elmo.config.char_cnn is not None
    padding = elmo.config.char_cnn.embedding
    assert elmo.config.parameter_count == sum(p.numel() for p in elmo.parameters()) - padding


def test_another_dictionary_is_another_revision(folder: Path) -> None:
    before = load(folder).origin.revision
    text = (folder / "word.dic").read_text().replace("hello\t", "hullo\t")
    (folder / "word.dic").write_text(text)
    assert load(folder).origin.revision != before


def test_the_published_pair_cannot_hold_one(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="lexicon"):
        published_pair.write(load(folder), tmp_path / "pair")


# Finding the files.


def test_a_zip_equals_the_folder(folder: Path, tmp_path: Path) -> None:
    for inside in ((folder, "."), (tmp_path, folder.name)):
        archive = shutil.make_archive(str(folder), "zip", *inside)
        assert load(archive).origin == load(folder).origin


@pytest.mark.parametrize("name", ["encoder.pkl", "token_embedder.pkl", "char.dic"])
def test_a_file_of_the_folder_stands_for_it(folder: Path, name: str) -> None:
    assert load(folder / name).origin == load(folder).origin


def test_config_path_is_found_below_the_folder_or_by_its_last_part(folder: Path) -> None:
    expected = load(folder).origin  # an absolute path of another machine, found by its last part
    (folder / "configs").mkdir()
    for path in ("configs/cnn_tiny.json", "C:\\models\\cnn_tiny.json"):
        if path.startswith("configs"):
            (folder / "cnn_tiny.json").rename(folder / "configs" / "cnn_tiny.json")
        else:
            (folder / "configs" / "cnn_tiny.json").rename(folder / "cnn_tiny.json")
        set_config(folder, config_path=path)
        assert load(folder).origin == expected


def test_config_path_never_leaves_the_folder(folder: Path) -> None:
    (folder / "cnn_tiny.json").rename(folder.parent / "other.json")
    for path in ("../other.json", str(folder.parent / "other.json")):
        set_config(folder, config_path=path)
        # The released settings are assumed, and this model has other sizes.
        with pytest.raises(CheckpointError, match="released"):
            load(folder)


def test_the_released_settings_are_assumed_with_a_note(folder: Path) -> None:
    """Without the tensors of such a model, which has 300 MB."""
    (folder / "cnn_tiny.json").unlink()
    set_config(folder, config_path="/somewhere/cnn_50_100_512_4096_sample.json")
    source = in_folder(folder)
    settings, label, (note,) = elmoformanylangs._settings(source)
    config, _ = elmoformanylangs._described(source, settings, label)
    assert config.lstm.cell == 4096 and config.lstm.projection == 512
    assert config.char_cnn and config.char_cnn.width == 2048
    assert "the settings of the released models were assumed" in note
    assert "/somewhere/cnn_50_100_512_4096_sample.json" in note


# Traps of the dictionaries and the pickles.


@pytest.mark.parametrize(
    ("file", "line", "written", "key"),
    [
        ("char.dic", "\u3000", " ", "\u3000"),  # of white space alone
        ("word.dic", "hello", "\u00a0 hello", "hello"),
        ("char.dic", "天", "x\u2028y", "x\u2028y"),
        ("word.dic", "two words", "two\twords", "two\twords"),
    ],
)
def test_lines_are_split_as_the_tool_splits_them(
    folder: Path, file: str, line: str, written: str, key: str
) -> None:
    def ids() -> dict[str, int]:
        alphabet = load(folder).alphabet
        assert isinstance(alphabet, Lexicon)
        return alphabet.characters if file == "char.dic" else alphabet.words

    row, text = ids()[line], (folder / file).read_text(encoding="utf-8")
    assert f"\n{line}\t" in text
    changed = text.replace(f"\n{line}\t", f"\n{written}\t")
    (folder / file).write_text(changed, encoding="utf-8", newline="")
    assert ids()[key] == row


def test_old_pickles_from_a_gpu_are_read_without_one(folder: Path) -> None:
    expected = load(folder).origin
    for name in ("token_embedder.pkl", "encoder.pkl"):
        torch.save(pickled(folder / name), folder / name, _use_new_zipfile_serialization=False)
        content = (folder / name).read_bytes()
        assert b"ctorch\nFloatStorage" in content and b"X\x03\0\0\0cpu" in content
        content = content.replace(b"ctorch\nFloatStorage", b"ctorch.cuda\nFloatStorage")
        (folder / name).write_bytes(content.replace(b"X\x03\0\0\0cpu", b"X\x06\0\0\0cuda:0"))
    assert load(folder).origin == expected


Damage = Callable[[Path], object]


def set_config(folder: Path, **values: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | values))


def settings(section: str, **values: Any) -> Damage:
    def change(folder: Path) -> None:
        path = folder / "cnn_tiny.json"
        config = json.loads(path.read_text())
        config[section] |= values
        path.write_text(json.dumps(config))

    return change


def tensor(file: str, name: str, value: Tensor) -> Damage:
    return lambda f: torch.save({**pickled(f / file), name: value}, f / file)


def words_only(folder: Path) -> None:
    """Turn a model of words and characters into a word-input model; cut the projection."""
    settings("token_embedder", char_dim=0)(folder)
    state = pickled(folder / "token_embedder.pkl")
    kept = {name: state[name] for name in ("word_emb_layer.embedding.weight", "projection.bias")}
    kept["projection.weight"] = state["projection.weight"][:, :6].clone()
    torch.save(kept, folder / "token_embedder.pkl")
    (folder / "char.dic").unlink()


def pickled(path: Path) -> dict[str, Tensor]:
    return dict(torch.load(path, weights_only=True))


REFUSED: dict[str, tuple[Damage, str]] = {
    "no dictionary": (lambda f: (f / "word.dic").unlink(), r"word\.dic"),
    "config": (lambda f: (f / "config.json").write_text("["), "JSON"),
    "no path": (lambda f: set_config(f, config_path=None), "config_path"),
    "encoder": (settings("encoder", name="lstm"), "'lstm'"),
    "cell": (settings("encoder", dim=13), r"expected \(52, 8\)"),
    "no dims": (settings("token_embedder", word_dim=0, char_dim=0), "neither"),
    "empty": (lambda f: (f / "char.dic").write_text("\n"), "characters is 0"),
    "no words": (lambda f: (f / "word.dic").write_text(""), "count is 0"),
    "dictionary": (lambda f: (f / "char.dic").write_text("a b\n"), "TAB"),
    "sparse": (
        tensor("token_embedder.pkl", "projection.bias", torch.zeros(8).to_sparse()),
        "strided",
    ),
    "unexpected": (tensor("encoder.pkl", "colour", torch.ones(1)), "colour"),
    "type": (
        tensor("token_embedder.pkl", "projection.bias", torch.zeros(8, dtype=torch.int32)),
        "int32",
    ),
    "strides": (
        tensor("token_embedder.pkl", "projection.bias", torch.zeros(1).expand(8)),
        "stores 4 bytes",
    ),
    "truncated": (
        lambda f: (f / "encoder.pkl").write_bytes((f / "encoder.pkl").read_bytes()[:900]),
        "encoder",
    ),
}


@pytest.mark.parametrize(("damage", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_a_damaged_model_is_refused_in_one_line(folder: Path, damage: Damage, message: str) -> None:
    damage(folder)
    with pytest.raises(CheckpointError, match=message) as refusal:
        load(folder)
    assert "\n" not in str(refusal.value) and str(folder) in str(refusal.value)
