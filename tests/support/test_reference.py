"""The NumPy reference against the original implementations, and the checkpoints against both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
import pytest

from tests.support.checkpoints import (
    PUBLISHED_FILTERS,
    change_options,
    misshapen,
    poisoned,
    poisoned_by,
    read_pair,
    truncated,
    weights_file,
    with_dataset,
    with_row_zero,
    without_dataset,
    write_pair,
)
from tests.support.reference import (
    State,
    bilm,
    character_ids,
    representations,
    scalar_mix,
    token_vector,
    without_boundaries,
)

Array = npt.NDArray[Any]

GOLDEN = Path(__file__).parents[1] / "golden"
SMALL = GOLDEN / "allennlp" / "small"
TEXT = json.loads((GOLDEN / "allennlp" / "sentences.json").read_text(encoding="utf-8"))
SENTENCE = ["Only", "naïve", "tokens", "", "~", "東京", "."]

# AllenNLP adds the forget gate's + 1 in float32 even when it runs in float64
FLOAT64 = 2e-6
FLOAT32 = 5e-5
PRECISIONS = [("_f64", np.float64, FLOAT64), ("", np.float32, FLOAT32)]


def test_character_ids_are_those_of_allennlp() -> None:
    golden = np.load(SMALL / "char_ids.npz")

    for number, sentence in enumerate(TEXT["sentences"]):
        ids = [character_ids(token) for token in sentence]
        np.testing.assert_array_equal(np.reshape(ids, (-1, 50)), golden[f"s{number}"])


def test_character_ids_of_another_width_are_those_of_bilm_tf() -> None:
    vocabulary = (GOLDEN / "bilm_training" / "vocab.txt").read_text(encoding="utf-8").splitlines()
    golden = np.load(GOLDEN / "bilm_training" / "char" / "batches.npz")
    unknown = vocabulary.index("<UNK>")
    compared = 0

    for batch in range(6):
        tokens = golden[f"{batch}/token_ids"].ravel()
        rows = golden[f"{batch}/tokens_characters"].reshape(-1, 16)
        for token, row in zip(tokens, rows, strict=True):
            if token != unknown:  # an unknown word keeps its own characters, which we cannot tell
                # training feeds ids without the shift by one
                np.testing.assert_array_equal(character_ids(vocabulary[token], 16) - 1, row)
                compared += 1

    assert compared > 30


@pytest.mark.parametrize(("suffix", "dtype", "tolerance"), PRECISIONS)
def test_layers_are_those_of_allennlp(suffix: str, dtype: Any, tolerance: float) -> None:
    options, weights = read_pair(SMALL)
    golden = np.load(SMALL / f"stateless{suffix}.npz")

    for name in golden.files:
        layers, _ = representations(sentence_of(name), options, weights, dtype=dtype)
        assert layers.dtype == dtype
        assert layers.shape == golden[name].shape
        assert np.abs(layers - golden[name]).max() <= tolerance, name


@pytest.mark.parametrize(("suffix", "dtype", "tolerance"), PRECISIONS)
def test_state_carried_over_four_batches_is_that_of_allennlp(
    suffix: str, dtype: Any, tolerance: float
) -> None:
    options, weights = read_pair(SMALL)
    golden = np.load(SMALL / f"stateful{suffix}.npz")
    golden_states = np.load(SMALL / "states.npz")
    states: list[State] = []

    for batch, numbers in enumerate(TEXT["batches"]):
        for row, number in enumerate(numbers):
            before = states[row] if row < len(states) else None
            layers, after = representations(
                TEXT["sentences"][number], options, weights, before, dtype
            )
            states[row : row + 1] = [after]
            expected = golden[f"b{batch}_s{number}_full"]
            assert np.abs(layers - expected).max() <= tolerance, (batch, number)

        # AllenNLP keeps (layers, rows, both directions side by side), in float32 here
        hidden = np.stack([np.concatenate(state.hidden, axis=-1) for state in states], axis=1)
        memory = np.stack([np.concatenate(state.memory, axis=-1) for state in states], axis=1)
        assert np.abs(hidden - golden_states[f"b{batch}_h"]).max() <= FLOAT32
        assert np.abs(memory - golden_states[f"b{batch}_c"]).max() <= FLOAT32


@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("layer_norm", [0, 1])
def test_scalar_mixes_are_those_of_allennlp(layer_norm: int, keep: int) -> None:
    options, weights = read_pair(SMALL)
    golden = np.load(SMALL / "elmo_module.npz")
    given = (golden["scalar_parameters"], float(golden["gamma"]))
    mixes = [(np.zeros(3), 1.0), given]
    states: list[State] = []

    for batch in range(2):
        several = []
        for row, number in enumerate(TEXT["batches"][batch]):
            before = states[row] if row < len(states) else None
            layers, after = representations(TEXT["sentences"][number], options, weights, before)
            states[row : row + 1] = [after]
            several.append(layers)
        starts = np.cumsum([layers.shape[1] for layers in several])[:-1]

        for number, (parameters, gamma) in enumerate(mixes):
            # AllenNLP's layer norm is over the batch: one long sentence is the same thing
            mixed = scalar_mix(
                np.concatenate(several, axis=1), parameters, gamma, layer_norm=bool(layer_norm)
            )
            expected = golden[f"ln{layer_norm}_keep{keep}_batch{batch}_rep{number}"]
            for row, framed in enumerate(np.split(mixed, starts)):
                vectors = framed if keep else framed[1:-1]
                difference = vectors - expected[row, : len(vectors)]
                assert np.abs(difference).max(initial=0.0) <= FLOAT32


def test_layer_norm_makes_each_layer_one_mean_and_one_variance() -> None:
    layers = np.random.default_rng(0).normal(3.0, 5.0, (3, 6, 8))

    mixed = scalar_mix(layers, [-1e9, 0.0, -1e9], gamma=2.0, layer_norm=True)

    assert mixed.mean() == pytest.approx(0.0, abs=1e-12)
    assert mixed.std() == pytest.approx(2.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_mix_keeps_the_precision_of_its_layers(dtype: Any) -> None:
    layers = np.ones((3, 6, 8), dtype)

    assert scalar_mix(layers, [0.1, 0.2, 0.3], np.float64(0.5), layer_norm=True).dtype == dtype


@pytest.mark.parametrize("layer_norm", [False, True])
def test_nothing_mixes_to_nothing(layer_norm: bool) -> None:
    assert scalar_mix(np.zeros((3, 0, 8)), [0, 0, 0], layer_norm=layer_norm).shape == (0, 8)


def test_removing_the_boundaries_keeps_the_tokens(tmp_path: Path) -> None:
    options, weights = read_pair(write_pair(tmp_path))

    layers, _ = representations(SENTENCE, options, weights)
    empty, _ = representations([], options, weights)

    kept = without_boundaries(layers)
    assert kept.shape == (3, len(SENTENCE), 8)
    assert without_boundaries(empty).shape == (3, 0, 8)
    for vector, token in zip(kept[0], SENTENCE, strict=True):
        np.testing.assert_array_equal(vector, np.tile(token_vector(token, options, weights), 2))


def test_directions_are_mirror_images(tmp_path: Path) -> None:
    options, weights = read_pair(write_pair(tmp_path, layers=3))
    mirrored = {
        name.replace("RNN_0", "RNN_x").replace("RNN_1", "RNN_0").replace("RNN_x", "RNN_1"): value
        for name, value in weights.items()
    }
    mirrored["char_embed"] = weights["char_embed"].copy()
    mirrored["char_embed"][[256, 257]] = weights["char_embed"][[257, 256]]

    layers, _ = representations(SENTENCE, options, weights)
    twin, _ = representations(SENTENCE[::-1], options, mirrored)

    forward, backward = np.split(layers, 2, axis=-1)
    np.testing.assert_array_equal(twin[:, ::-1], np.concatenate([backward, forward], axis=-1))


@pytest.mark.parametrize("layers", [1, 2, 3, 4])
def test_there_is_one_layer_more_than_lstms(tmp_path: Path, layers: int) -> None:
    options, weights = read_pair(write_pair(tmp_path, layers=layers))

    answer, state = representations(SENTENCE, options, weights)

    assert answer.shape == (layers + 1, len(SENTENCE) + 2, 8)
    assert state.hidden.shape == (2, layers, 4)
    assert state.memory.shape == (2, layers, 8)


def test_skip_connections_begin_with_the_second_layer(tmp_path: Path) -> None:
    options, weights = read_pair(write_pair(tmp_path, skip=True))
    without, same = read_pair(write_pair(tmp_path, skip=False))

    skipping, _ = representations(SENTENCE, options, weights)
    plain, _ = representations(SENTENCE, without, same)

    np.testing.assert_array_equal(skipping[:2], plain[:2])
    np.testing.assert_array_equal(skipping[2], plain[2] + plain[1])


def test_no_highways_are_highways_that_never_transform(tmp_path: Path) -> None:
    options, weights = read_pair(write_pair(tmp_path, highways=2))
    closed = dict(weights)
    for number in range(2):
        closed[f"CNN_high_{number}/W_carry"] = np.zeros((16, 16), np.float32)
        closed[f"CNN_high_{number}/b_carry"] = np.full(16, -1e3, np.float32)
    without = {**options, "char_cnn": {**options["char_cnn"], "n_highway": 0}}

    for token in SENTENCE:
        through = token_vector(token, options, closed)
        np.testing.assert_array_equal(through, token_vector(token, without, weights))
        assert np.abs(through - token_vector(token, options, weights)).max() > 1e-3


def test_tanh_and_relu_act_on_the_same_maxima(tmp_path: Path) -> None:
    # 16 filters and a projection of 16: nothing stands after the convolution
    relu = read_pair(write_pair(tmp_path, projection=16, highways=0, activation="relu"))
    tanh = read_pair(write_pair(tmp_path, projection=16, highways=0, activation="tanh"))

    for token in SENTENCE:
        maxima = np.arctanh(token_vector(token, *tanh))
        np.testing.assert_allclose(token_vector(token, *relu), np.maximum(maxima, 0), atol=1e-9)


def test_no_char_projection_is_the_identity(tmp_path: Path) -> None:
    options, weights = read_pair(write_pair(tmp_path, projection=16))
    assert not any(name.startswith("CNN_proj") for name in weights)
    identity = {"CNN_proj/W_proj": np.eye(16), "CNN_proj/b_proj": np.zeros(16)}

    without, _ = representations(SENTENCE, options, weights)
    with_identity, _ = representations(SENTENCE, options, {**weights, **identity})

    np.testing.assert_array_equal(without, with_identity)


def test_no_lstm_projection_is_the_identity_without_its_clip(tmp_path: Path) -> None:
    folder = write_pair(tmp_path, cell=4, projection=4, projection_clip=0.1)
    options, weights = read_pair(folder)
    assert not any(name.endswith("W_P_0") for name in weights)
    lstms = [name.removesuffix("B") for name in weights if name.endswith("/B")]
    identity = {f"{name}W_P_0": np.eye(4) for name in lstms}
    unclipped = {**options, "lstm": {**options["lstm"], "proj_clip": None}}

    without, _ = representations(SENTENCE, options, weights)
    with_identity, _ = representations(SENTENCE, unclipped, {**weights, **identity})

    np.testing.assert_array_equal(without, with_identity)
    assert np.abs(without[1]).max() > 0.1


def test_clips_bound_what_they_clip(tmp_path: Path) -> None:
    options, weights = read_pair(write_pair(tmp_path, cell_clip=0.5, projection_clip=0.25))

    layers, state = representations(SENTENCE, options, weights)

    assert np.abs(state.memory).max() == 0.5
    assert np.abs(layers[1]).max() == 0.25
    assert np.abs(layers[2]).max() > 0.25  # the residual comes after the clip


@pytest.mark.parametrize("off", [None, 0, 1e9])
def test_a_clip_of_none_or_zero_is_off(tmp_path: Path, off: float | None) -> None:
    absent = read_pair(write_pair(tmp_path / "absent", cell_clip=None, projection_clip=None))
    given = read_pair(write_pair(tmp_path / "given", cell_clip=off, projection_clip=off))
    clipped = read_pair(write_pair(tmp_path / "clipped"))
    assert "cell_clip" not in absent[0]["lstm"]

    layers, _ = representations(SENTENCE, *absent)

    np.testing.assert_array_equal(layers, representations(SENTENCE, *given)[0])
    assert np.abs(layers - representations(SENTENCE, *clipped)[0]).max() > 0.01


@pytest.mark.parametrize("n_characters", [261, 262, None])
def test_row_zero_of_the_character_table_may_be_stored(
    tmp_path: Path, n_characters: int | None
) -> None:
    pair = read_pair(write_pair(tmp_path / "261", n_characters=n_characters))
    longer = read_pair(with_row_zero(write_pair(tmp_path / "262", n_characters=n_characters)))
    assert pair[1]["char_embed"].shape == (261, 4)
    assert longer[1]["char_embed"].shape == (262, 4)

    layers, _ = representations(SENTENCE, *pair)

    np.testing.assert_array_equal(layers, representations(SENTENCE, *longer)[0])


def test_a_row_zero_that_is_not_zero_is_refused(tmp_path: Path) -> None:
    pair = read_pair(with_row_zero(write_pair(tmp_path), value=0.5))

    with pytest.raises(ValueError, match="262 rows"):
        representations(SENTENCE, *pair)


def test_written_pairs_have_the_published_layout(tmp_path: Path) -> None:
    golden_options, golden = read_pair(SMALL)
    filters = ((1, 4), (2, 4), (3, 8), (4, 16), (5, 16), (6, 32), (7, 48))

    options, weights = read_pair(
        write_pair(tmp_path, cell=64, projection=16, filters=filters, char_width=16, highways=2)
    )

    assert options == golden_options
    shapes = {name: (value.shape, value.dtype) for name, value in weights.items()}
    assert shapes == {name: (value.shape, value.dtype) for name, value in golden.items()}


def test_published_filters_are_2048() -> None:
    assert sum(count for _, count in PUBLISHED_FILTERS) == 2048


def test_a_seed_is_a_checkpoint(tmp_path: Path) -> None:
    _, first = read_pair(write_pair(tmp_path / "first", seed=1))
    _, again = read_pair(write_pair(tmp_path / "again", seed=1, activation="tanh", skip=False))
    _, other = read_pair(write_pair(tmp_path / "other", seed=2))

    for name, value in first.items():
        np.testing.assert_array_equal(value, again[name])
        assert (value != other[name]).any()


@pytest.mark.parametrize("seed", range(3))
def test_written_clips_bite_sometimes_and_float32_suffices(tmp_path: Path, seed: int) -> None:
    options, weights = read_pair(write_pair(tmp_path, seed=seed))
    state: State | None = None
    memories, hiddens = [], []

    for token in TEXT["sentences"][8]:
        vector = token_vector(token, options, weights)
        _, state = bilm(vector[np.newaxis], options, weights, state)
        memories.append(np.abs(state.memory) == 3)
        hiddens.append(np.abs(state.hidden) == 3)

    assert 0.01 < np.mean(memories) < 0.5
    assert 0.01 < np.mean(hiddens) < 0.5
    sentence = ["naïve", "tokens"] * 30
    double, _ = representations(sentence, options, weights)
    single, _ = representations(sentence, options, weights, dtype=np.float32)
    assert np.abs(double - single).max() < 2e-5


def test_a_poisoned_weight_poisons_every_token(tmp_path: Path) -> None:
    pair = read_pair(poisoned(write_pair(tmp_path)))

    layers, _ = representations(SENTENCE, *pair)

    assert np.isnan(layers).any(axis=-1).all()


def test_a_poisoned_character_poisons_its_sentences_alone(tmp_path: Path) -> None:
    sound = read_pair(write_pair(tmp_path / "sound"))
    sick = read_pair(poisoned_by(write_pair(tmp_path / "sick"), "~"))
    innocent = [token for token in SENTENCE if token != "~"]

    layers, _ = representations(SENTENCE, *sick)

    assert np.isnan(layers[1:]).any(axis=-1).all()
    assert np.flatnonzero(np.isnan(layers[0]).any(axis=-1)) == [1 + SENTENCE.index("~")]
    np.testing.assert_array_equal(
        representations(innocent, *sick)[0], representations(innocent, *sound)[0]
    )
    with pytest.raises(ValueError, match="2 bytes"):
        poisoned_by(tmp_path / "sick", "é")


def test_damage_is_what_its_maker_says(tmp_path: Path) -> None:
    whole = weights_file(write_pair(tmp_path / "cut")).stat().st_size
    truncated(tmp_path / "cut")
    assert weights_file(tmp_path / "cut").stat().st_size == whole // 2
    with pytest.raises(OSError, match="truncated"), h5py.File(weights_file(tmp_path / "cut"), "r"):
        pass

    _, weights = read_pair(without_dataset(write_pair(tmp_path / "less"), "CNN_high_0"))
    assert weights.keys() == {
        name for name in read_pair(write_pair(tmp_path / "all"))[1] if "CNN_high_0" not in name
    }

    _, weights = read_pair(misshapen(write_pair(tmp_path / "wide"), "CNN_proj/W_proj"))
    assert weights["CNN_proj/W_proj"].shape == (16, 5)

    _, weights = read_pair(with_dataset(write_pair(tmp_path / "more"), "extra", np.ones(3)))
    np.testing.assert_array_equal(weights["extra"], np.ones(3))

    folder = write_pair(tmp_path / "other", extra_options={"n_epochs": 10})
    change_options(folder, "lstm", dim=9, cell_clip=...)
    options, _ = read_pair(change_options(folder, None, n_epochs=...))
    assert "n_epochs" not in options
    assert options["lstm"]["dim"] == 9
    assert "cell_clip" not in options["lstm"]


@pytest.mark.parametrize("name", ["CNN_proj/W_proj", "RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell/W_P_0"])
def test_a_missing_projection_is_an_error_where_widths_differ(tmp_path: Path, name: str) -> None:
    pair = read_pair(without_dataset(write_pair(tmp_path), name))

    with pytest.raises(KeyError, match=name.rsplit("/", maxsplit=1)[-1]):
        representations(SENTENCE, *pair)


def sentence_of(name: str) -> list[str]:
    # b{batch}_s{sentence}_full
    sentence: list[str] = TEXT["sentences"][int(name.split("_")[1].removeprefix("s"))]
    return sentence
