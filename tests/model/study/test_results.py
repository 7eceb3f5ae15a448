"""Results are kept part by part."""

from pathlib import Path

import pytest

from elmo_model.study.evaluation_sets import StudyError
from elmo_model.study.results import Results


def test_a_part_is_made_once(tmp_path: Path) -> None:
    made = []

    def make() -> dict[str, int]:
        made.append(1)
        return {"score": len(made)}

    first = Results(tmp_path / "new", {"seeds": 3}).ensure("part", make)
    again = Results(tmp_path / "new", {"seeds": 3}).ensure("part", make)

    assert first == again and made == [1]
    assert first["score"] == 1 and first["seconds"] >= 0


def test_a_part_of_other_settings_is_refused(tmp_path: Path) -> None:
    Results(tmp_path, {"seeds": 3}).ensure("part", dict)

    with pytest.raises(StudyError, match=r"part\.json: is of the settings .*'seeds': 3.*folder"):
        Results(tmp_path, {"seeds": 2}).get("part")


def test_a_damaged_part_is_refused(tmp_path: Path) -> None:
    (tmp_path / "part.json").write_text("{")

    with pytest.raises(StudyError, match=r"part\.json: is not JSON"):
        Results(tmp_path, {}).get("part")
