"""GET /uses: the uses of a form in an indexed text, without a model."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.in_process import InProcess, in_process
from tests.support.made_up import made_up_index
from tests.support.workers import INFO

pytestmark = pytest.mark.asyncio(loop_scope="module")

TEXT = [["The", "bank", '"', "lends", "."], ["Bank"], ["bank", ",", "a", "bank"]]
LINES = [1, 4, 10]
USES = [
    {"line": 1, "sentence": TEXT[0], "token": 1, "before": "The", "after": '" lends .'},
    {"line": 10, "sentence": TEXT[2], "token": 0, "before": "", "after": ", a bank"},
    {"line": 10, "sentence": TEXT[2], "token": 3, "before": "bank , a", "after": ""},
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def serving(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[InProcess]:
    """A server with an index, whose worker computes nothing."""
    folder = tmp_path_factory.mktemp("uses") / "index"
    made_up_index(folder, TEXT, LINES, INFO.revision)
    async with in_process(is_open=False, index=[folder]) as serving:
        yield serving


async def asked(serving: InProcess, **query: Any) -> Any:
    response = await serving.client.get("/uses", params=query)
    assert response.status_code == 200, response.text
    return response.json()


async def test_all_uses_of_a_form_are_in_the_order_of_the_text(serving: InProcess) -> None:
    assert await asked(serving, word="bank") == {
        "word": "bank",
        "count": 3,
        "uses": USES,
        "index": {"text": "made up", "tokens": 10, "sentences": 3},
        "model": "small",
        "revision": INFO.revision,
    }
    assert serving.worker.batches == []


@pytest.mark.parametrize(
    ("word", "query", "count", "uses"),
    [
        ("bank", {"limit": 1}, 3, USES[:1]),
        ("bank", {"offset": 1, "limit": 1}, 3, USES[1:2]),
        ("bank", {"offset": 2, "limit": 100}, 3, USES[2:]),
        ("bank", {"offset": 3}, 3, []),
        ("bank", {"offset": 10**30, "model": "SMALL"}, 3, []),
        ("banks", {}, 0, []),
        ("\ufffd", {}, 0, []),
    ],
)
async def test_a_part_is_returned_and_all_are_counted(
    serving: InProcess, word: str, query: dict[str, Any], count: int, uses: list[Any]
) -> None:
    found = await asked(serving, word=word, **query)

    assert (found["count"], found["uses"]) == (count, uses)


async def test_a_table_has_a_row_for_each_use(serving: InProcess) -> None:
    response = await serving.client.get(
        "/uses", params={"word": "bank"}, headers={"Accept": "text/csv"}
    )

    assert response.headers["content-type"].partition(";")[0] == "text/csv"
    assert response.headers["vary"] == "Accept"
    rows = list(csv.DictReader(io.StringIO(response.text, newline="")))
    assert rows == [
        {
            **{name: str(value) for name, value in use.items()},
            "sentence": " ".join(use["sentence"]),  # type: ignore[arg-type]
            "word": "bank",
        }
        for use in USES
    ]


async def test_other_media_types_are_refused(serving: InProcess) -> None:
    refused = await serving.client.get(
        "/uses", params={"word": "bank"}, headers={"Accept": "image/png"}
    )

    assert refused.status_code == 406
    assert "text/csv" in refused.json()["detail"]


async def test_info_and_metrics_know_the_text_and_the_route(serving: InProcess) -> None:
    await asked(serving, word="bank")

    info = (await serving.client.get("/info")).json()
    text = {"text": "made up", "tokens": 10, "sentences": 3}
    assert info["index"] == {**text, "examples": None}
    assert 'route="/uses"' in (await serving.client.get("/metrics")).text
