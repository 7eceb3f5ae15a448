"""Which requests are traced."""

from __future__ import annotations

import random

import pytest

from elmo_serve.tracing.tracer import Sampling

LOW, HIGH = f"{1:032x}", "f" * 32


def sampling(name: str = "", ratio: str = "") -> Sampling:
    return Sampling({"OTEL_TRACES_SAMPLER": name, "OTEL_TRACES_SAMPLER_ARG": ratio})


def parent(trace_id: str, flags: str) -> str:
    return f"00-{trace_id}-{1:016x}-{flags}"


@pytest.mark.parametrize("name", ["", "parentbased_always_off", "parentbased_traceidratio"])
@pytest.mark.parametrize(("flags", "expected"), [("00", False), ("01", True), ("03", True)])
def test_the_client_decides_where_it_sends_a_trace(name: str, flags: str, expected: bool) -> None:
    found = sampling(name, "0.5" if name.endswith("ratio") else "")

    assert found.decide(parent(LOW, flags)) == (LOW, expected)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("", True),
        ("always_on", True),
        ("parentbased_always_on", True),
        ("always_off", False),
        ("parentbased_always_off", False),
    ],
)
def test_requests_without_a_trace_are_all_sampled_or_none(name: str, expected: bool) -> None:
    assert {sampling(name).decide(None) for _ in range(100)} == {(None, expected)}


@pytest.mark.parametrize("name", ["traceidratio", "parentbased_traceidratio"])
def test_a_ratio_is_the_share_of_requests_without_a_trace(name: str) -> None:
    random.seed(0)
    found = sampling(name, "0.25")

    taken = sum(found.decide(None)[1] for _ in range(10_000))
    # The standard deviation is 43.
    assert abs(taken - 2_500) < 250


def test_a_ratio_without_parents_decides_by_the_id_of_the_trace() -> None:
    found = sampling("traceidratio", "0.01")

    assert found.decide(parent(LOW, "00")) == (LOW, True)
    assert found.decide(parent(HIGH, "01")) == (HIGH, False)


@pytest.mark.parametrize(
    "sent",
    [
        "",
        "nonsense",
        f"ff-{LOW}-{1:016x}-01",
        f"00-{LOW}-{1:016x}",
        f"00-{LOW}-{1:016x}-01-more",
        f"00-{'0' * 32}-{1:016x}-01",
        f"00-{LOW}-{'0' * 16}-01",
        f"00-{HIGH.upper()}-{1:016x}-01",
        f"00-{LOW}-{1:016x}-1",
    ],
)
def test_what_is_no_trace_context_counts_as_none(sent: str) -> None:
    assert sampling("always_off").decide(sent) == (None, False)


def test_later_versions_may_have_more() -> None:
    sent = f"01-{LOW}-{1:016x}-01-more"

    assert sampling().decide(sent) == (LOW, True)


@pytest.mark.parametrize(
    ("name", "ratio", "message"),
    [
        ("jaeger_remote", "", "OTEL_TRACES_SAMPLER='jaeger_remote'; it can be always_on, "),
        ("traceidratio", "2", "OTEL_TRACES_SAMPLER_ARG='2'; it can be a number from 0 to 1"),
        ("traceidratio", "x", "OTEL_TRACES_SAMPLER_ARG='x'; it can be a number from 0 to 1"),
    ],
)
def test_an_unknown_sampler_is_refused(name: str, ratio: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sampling(name, ratio)
