"""`elmo convert`: the same model to the bit, and no other file lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from elmo_model.checkpoints import save
from elmo_model.models.opening import open_model
from tests.support import fork_server
from tests.support.command_line import assert_equal_to_the_bit, elmo
from tests.support.files import full_disk
from tests.support.servers import SMALL


def test_a_checkpoint_converted_and_back_is_the_same_to_the_bit(
    published: Path, tmp_path: Path
) -> None:
    native, again = tmp_path / "small.safetensors", tmp_path / "again"

    first = elmo("convert", published, native)
    second = elmo("convert", native, again)

    assert (first.exit_code, second.exit_code) == (0, 0), first.output + second.output
    assert first.stdout.startswith(f"Wrote {native}: published, native, ")
    assert first.stderr == second.stderr == ""  # nothing is lost, and no loss is told
    assert {path.name for path in again.iterdir()} == {"options.json", "weights.hdf5"}
    assert_equal_to_the_bit(published, native)
    assert_equal_to_the_bit(published, again)
    revisions = {open_model(path).origin.revision for path in (published, native, again)}
    assert len(revisions) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "again",
        "published",
        "small.safetensors",
    ]


def test_a_name_is_kept_in_the_file(published: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"

    elmo("convert", published, path, "--name", "my model")

    assert json.loads(elmo("info", path, "--json").stdout)["name"] == "my model"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_weights_are_rounded_to_16_bits(published: Path, tmp_path: Path, dtype: str) -> None:
    whole, half, again = (tmp_path / f"{name}.safetensors" for name in ("whole", "half", "again"))
    elmo("convert", published, whole)

    done = elmo("convert", published, half, "--dtype", dtype)

    assert done.exit_code == 0, done.output
    assert half.stat().st_size < 0.6 * whole.stat().st_size
    before, after = open_model(whole).state_dict(), open_model(half).state_dict()
    for name, tensor in before.items():
        assert torch.equal(after[name], tensor.to(getattr(torch, dtype)).float())
    assert open_model(half).origin.revision != open_model(whole).origin.revision
    elmo("convert", half, again)
    assert open_model(half).origin.revision == open_model(again).origin.revision


def test_a_weight_that_16_bits_cannot_hold_is_named(tmp_path: Path) -> None:
    model = open_model(SMALL)
    with torch.no_grad():
        model.get_parameter("bilm.forward_stack.layers.0.bias")[3] = 70_000
    save(model, tmp_path / "large.safetensors")

    refused = elmo(
        "convert", tmp_path / "large.safetensors", tmp_path / "h.safetensors", "--dtype", "float16"
    )

    assert refused.exit_code == 1
    assert "bias holds 7e+04, expected at most 65504, the largest float16" in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["large.safetensors"]


def test_a_file_is_replaced_by_force(published: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.safetensors"
    file.write_text("mine")

    assert elmo("convert", published, file, "--force").exit_code == 0
    assert_equal_to_the_bit(published, file)


def test_a_folder_may_be_empty(published: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()

    assert elmo("convert", published, empty).exit_code == 0

    assert_equal_to_the_bit(published, empty)


def test_every_kind_of_model_is_described_and_converted(tmp_path: Path) -> None:
    golden = SMALL.parents[1]
    kinds = {
        "elmoformanylangs": golden / "elmoformanylangs" / "word_and_char",
        "bilm-tf": golden / "tensorflow" / "bilm_tf",
        "tf-hub": golden / "tensorflow" / "tf_hub",
    }
    for kind, place in kinds.items():
        target = tmp_path / f"{kind}.safetensors"

        described = elmo("info", place)
        converted = elmo("convert", place, target)

        assert described.exit_code == converted.exit_code == 0, converted.output
        assert f"format {kind}" in " ".join(described.stdout.split())
        assert_equal_to_the_bit(place, target)
        assert open_model(target).tasks == open_model(place).tasks


def test_assumed_values_and_lost_tasks_are_printed(tmp_path: Path) -> None:
    module = SMALL.parents[1] / "tensorflow" / "tf_hub"

    run = fork_server.run(["elmo", "convert", module, tmp_path / "pair"])

    first, second = run.stderr.splitlines()
    assert "has no options; clips of 3, relu and 50 characters a token were assumed" in first
    assert second == (
        "elmo: a pair keeps no tasks, these are left out: elmo; "
        f"`elmo tasks {module} FOLDER` writes them"
    )


@pytest.mark.parametrize("name", ["out.safetensors", "pair"])
@pytest.mark.parametrize("room", [100, 5_000, 100_000])
def test_a_full_disk_is_one_line_and_leaves_nothing(
    published: Path, tmp_path: Path, name: str, room: int
) -> None:
    with full_disk(room):
        result = elmo("convert", published, tmp_path / name)

    assert result.exit_code == 1
    assert result.stderr == f"elmo: {tmp_path / name} cannot be written: File too large\n"
    assert [path.name for path in tmp_path.iterdir()] == ["published"]


def test_a_folder_name_may_hold_dots(published: Path, tmp_path: Path) -> None:
    assert elmo("convert", published, tmp_path / "elmo_5.5B").exit_code == 0
    assert (tmp_path / "elmo_5.5B" / "weights.hdf5").is_file()
