"""The measurement that the capacity model reads."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from elmo_serve.capacity.measurement import MeasurementError, parse, read
from tests.support.measurements import measurement


def test_batch_time_overhead_and_requests_are_read() -> None:
    found = parse(measurement(fixed=0.02, per_token=1e-4, latency=0.05))

    assert found.batch_time.fixed == pytest.approx(0.02)
    assert found.batch_time.per_token == pytest.approx(1e-4)
    assert found.overhead == pytest.approx(0.05 - 0.0224)
    assert (found.workers, found.batch_tokens, found.bytes_out) == (1, 240, 100.0)
    assert (found.mean_tokens, found.mean_cost) == (20, 24)
    assert found.draw(random.Random(1)) == [10, 10]


def test_without_one_client_there_is_no_overhead() -> None:
    body = measurement()
    del body["phases"][0]

    assert parse(body).overhead == 0


def test_a_file_that_is_no_measurement_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    with pytest.raises(MeasurementError, match=r"bench\.json: No such file"):
        read(path)
    path.write_text("{")
    with pytest.raises(MeasurementError, match="is not JSON"):
        read(path)
    path.write_text("[]")
    with pytest.raises(MeasurementError, match="is no JSON of `elmo bench"):
        read(path)
    body = measurement()
    for phase in body["phases"]:
        phase["batches"] = None
    path.write_text(json.dumps(body))
    with pytest.raises(MeasurementError, match="no batches were measured: measure one server"):
        read(path)


@pytest.mark.parametrize("member", ["seconds", "tokens", "count"])
def test_batches_without_a_time_are_refused(tmp_path: Path, member: str) -> None:
    path = tmp_path / "bench.json"
    body = measurement()
    body["phases"][0]["batches"][member] = 0
    path.write_text(json.dumps(body))

    with pytest.raises(MeasurementError, match="batches took no time or had no tokens"):
        read(path)
