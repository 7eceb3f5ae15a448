"""Parquet: one row per sentence with `index`, `tokens` and `vectors`; the metadata has the shape.

It is written by pyarrow, an optional dependency: `pip install 'elmo-serve[parquet]'`.
"""

from __future__ import annotations

import importlib.util

from elmo_serve.files.inputs import FileError
from elmo_serve.files.outputs.output_format import Facts, Items, OutputFormat, Target


def _write(target: Target, items: Items, facts: Facts) -> None:
    from elmo_serve.files.outputs.parquet_writer import write  # noqa: PLC0415 - optional

    write(target, items, facts)


def _require() -> None:
    if importlib.util.find_spec("pyarrow") is None:
        raise FileError(
            "Parquet needs pyarrow, which is not installed: pip install 'elmo-serve[parquet]'"
        )


FORMAT = OutputFormat(
    _write,
    ".parquet",
    (".parquet",),
    require=_require,
    is_stream=True,
    holds_pooled=True,
)
