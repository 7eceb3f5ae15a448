"""The sizes of an index and of a search."""

from typing import Final

CANDIDATES: Final = 200
"""Tokens of each searched layer whose cosines are computed exactly. More of them find more of the
true neighbours of a mixture and take longer (`benchmarks/neighbours.py`)."""

MOST_NEIGHBOURS: Final = 100
"""Largest number of neighbours of one search: half of the candidates of one layer, so that most of
the true ones are among them. A long own sentence, which is left out, adds candidates."""

PART_TOKENS: Final = 262_144
"""Tokens of a part. More take more memory while they are indexed, and lose more work when the run
is killed; fewer make more parts, each of which takes a share of the time of a search
(`benchmarks/neighbours.py`)."""
