"""Snapshots are written whole, and damaged ones are refused."""

from pathlib import Path
from typing import Any

import pytest
import torch

from elmo_model.network.state import State
from elmo_model.training.command import TrainOptions
from elmo_model.training.snapshot import Snapshot, SnapshotError, latest, step_of
from tests.support.training_runs import last_snapshot


def test_the_last_two_are_kept_and_a_damaged_one_is_refused(copied: TrainOptions) -> None:
    path = last_snapshot(copied.run)
    assert sorted(p.stem for p in path.parent.iterdir()) == ["000000008", "000000012"]
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(SnapshotError, match="damaged or no snapshot"):
        Snapshot.read(path)
    torch.save({"version": 0}, path)
    with pytest.raises(SnapshotError, match="version is 0, expected 1"):
        Snapshot.read(path)


@pytest.mark.parametrize("change", [{"step": ...}, {"cursors": ...}, {"cursors": [{"cycle": 0}]}])
def test_a_snapshot_without_a_part_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    nothing = torch.zeros(1)
    Snapshot(3, 0.5, {}, {}, {}, State(nothing, nothing), ()).write(tmp_path)
    path = latest(tmp_path)
    assert path is not None
    content = {**torch.load(path, weights_only=True), **change}
    torch.save({key: value for key, value in content.items() if value is not ...}, path)
    with pytest.raises(SnapshotError, match=r"000000003\.pt: is damaged or no snapshot: lacks '"):
        Snapshot.read(path)


def test_a_snapshot_without_an_average_is_read(copied: TrainOptions) -> None:
    """Earlier versions wrote none."""
    path = last_snapshot(copied.run)
    content = torch.load(path, weights_only=True)
    del content["average"]
    torch.save(content, path)
    found = Snapshot.read(path)
    assert found.average == {} and found.model is found.weights
    assert found.step == step_of(path) == 12


def test_a_folder_without_snapshots_has_no_latest(tmp_path: Path) -> None:
    assert latest(tmp_path) is None
