"""The size of OUTPUT and the time left are told early; a disk without room is refused at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from elmo_model.errors import OptionError
from elmo_serve.files.forecast import Forecast, shown_bytes, shown_time
from elmo_serve.files.inputs import Sentence
from elmo_serve.files.options import EmbedOptions
from elmo_serve.files.outputs import OUTPUTS
from elmo_serve.files.outputs.output_format import Facts
from elmo_serve.files.run import EmbedRun
from elmo_serve.selection import Output
from elmo_serve.workers.messages import ModelInfo
from tests.support.embedding_runs import embed
from tests.support.made_up_source import INFO, MadeUp

ROWS = 10
SIZE = ROWS * (3 * 2 * 4 + 300)  # ten sentences of three tokens


@pytest.mark.parametrize("form", OUTPUTS)
def test_the_size_of_each_format_is_known_before(tmp_path: Path, form: str) -> None:
    rng = np.random.default_rng(0)
    facts = Facts(ModelInfo("m", "1", "none", 1, 256, 0, "float32"), Output(layers=(0,)))
    tokens = [[f"word{number}" for number in range(21)] for _ in range(200)]
    items = [
        (Sentence(f"{number} {' '.join(each)}", [str(number), *each]), rng.normal(0, 1, (22, 256)))
        for number, each in enumerate(tokens)
    ]
    items = [(sentence, vectors.astype(np.float32)) for sentence, vectors in items]

    OUTPUTS[form].write(tmp_path / "out", items, facts)

    said = OUTPUTS[form].size(sum(vectors.nbytes for _, vectors in items), len(items))
    assert 0.85 < said / (tmp_path / "out").stat().st_size < 1.15


@pytest.fixture
def options(tmp_path: Path) -> EmbedOptions:
    (tmp_path / "in.txt").write_text("a b c\n" * ROWS)
    return EmbedOptions("top", "npz", str(tmp_path / "in.txt"), str(tmp_path / "out"))


def run(
    options: EmbedOptions,
    free: list[int],
    before: Callable[[int], None] = lambda _: None,
    at_join: int | None = None,
) -> EmbedRun:
    """Run where the disk has so many bytes free, one number each time that it is asked.

    The process ends when part `at_join` is joined.
    """
    joined = 0

    def step(name: str, done: int = 0, total: int = 0, unit: str = "") -> None:
        nonlocal joined
        joined += name == "Writing"
        if joined == at_join:
            raise KeyboardInterrupt

    room = iter(free)
    forecast = Forecast(free=lambda _: next(room))
    made = EmbedRun(options.form, MadeUp(options.selected(INFO), before), step, forecast)
    text = options.corpus.text("in.txt")
    if options.to_folder:
        made.to_folder(options)
    else:
        made.to_file(text, Path(options.output), options.identity(INFO))
    return made


def test_a_disk_without_room_is_refused_before_anything_is_computed(options: EmbedOptions) -> None:
    def before(_: int) -> None:
        raise AssertionError

    with pytest.raises(OptionError, match=r"3\.2 kB") as refusal:
        run(options, [int(1.19 * SIZE)], before)

    assert refusal.value.exit_code == 2
    assert [path.name for path in Path(options.output).parent.iterdir()] == ["in.txt"]
    assert run(options, [int(1.21 * SIZE), 10**9]).sentences == ROWS


def test_only_the_rest_of_a_run_needs_room(options: EmbedOptions) -> None:
    def before(number: int) -> None:
        if number == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(options, [10**9], before)
    folder = Path(f"{options.output}.parts")
    rest = SIZE - sum(path.stat().st_size for path in folder.glob("*.part"))

    with pytest.raises(OptionError, match="more"):
        run(options, [int(1.19 * rest)])
    assert run(options, [int(1.21 * rest), 10**9]).resumed == 8


def test_without_room_for_both_a_part_is_removed_when_it_is_joined(options: EmbedOptions) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(options, [10**9, 10], at_join=3)

    kept = sorted(path.name for path in Path(f"{options.output}.parts").glob("*.part"))
    assert kept == [f"{number:06}.part" for number in (4, 6, 8)]
    assert (again := run(options, [10**9, 10**9])).sentences == 4
    assert again.resumed == 6
    with np.load(options.output) as found:
        assert len(found.files) == ROWS


def test_the_time_left_is_told_once_after_twenty_batches() -> None:
    now, told = 100.0, list[str]()
    forecast = Forecast(told.append, clock=lambda: now)
    forecast.begin()

    now += 60
    forecast.count(19_000, 10**9, 1_000)
    assert told == []
    forecast.count(20_000, 3_600_000, 1_000)
    forecast.count(21_000, 3_600_000, 1_000)
    assert told == ["about 3.0 hours left"]


def test_less_than_a_minute_is_not_told() -> None:
    forecast = Forecast(pytest.fail, clock=lambda: 0.0)
    forecast.begin()

    forecast.count(20_000, 1, 1_000)


def test_the_command_tells_the_size(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("The cat can't sit.\n" * 1_000)

    exact = embed(tmp_path / "in.txt", tmp_path / "a.npz", "--all")
    about = embed(tmp_path / "in.txt", tmp_path / "b.npz", "--all", "--tokenizer", "ptb")

    assert f"elmo: {tmp_path / 'a.npz'} will have 1.8 MB" in exact.stderr
    assert f"elmo: {tmp_path / 'b.npz'} will have about 2.6 MB" in about.stderr


@pytest.mark.parametrize(
    ("count", "text"), [(999, "999 bytes"), (82 * 10**8, "8.2 GB"), (10**16, "10,000.0 TB")]
)
def test_sizes_are_decimal(count: int, text: str) -> None:
    assert shown_bytes(count) == text


def test_times_are_hours_or_minutes() -> None:
    assert (shown_time(12 * 3600), shown_time(300)) == ("12.0 hours", "5 minutes")
