"""The log of a run grows line by line and survives a crash."""

from pathlib import Path

from elmo_model.training.log import Log, read


def test_lines_after_the_snapshot_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    log = Log(path, 0)
    for step in (1, 2, 3):
        log.write({"step": step})
    with path.open("a") as file:
        file.write('{"step": 4, "lo')  # cut off by a crash
    assert [line["step"] for line in read(path)] == [1, 2, 3]
    Log(path, 2).write({"step": 5})
    assert [line["step"] for line in read(path)] == [1, 2, 5]
