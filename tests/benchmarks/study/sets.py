"""Small evaluation sets in the layout of the study's folder."""

from pathlib import Path

SENTENCES = [
    (["The", "cat", "sat"], ["O", "B-x", "O"]),
    (["Zürich", "is", "far", "away"], ["B-x", "I-x", "O", "O"]),
    (["a", "dog"], ["O", "B-x"]),
    (["cats"], ["B-x"]),
    (["The", "dog", "sat"], ["O", "B-x", "O"]),
    (["far", "away"], ["O", "O"]),
]


def write_ner(folder: Path, copies: int = 4) -> None:
    """Write `ner/wnut17` with `copies` times six sentences in each part."""
    (folder / "ner" / "wnut17").mkdir(parents=True)
    blocks = ["".join(f"{t}\t{y}\n" for t, y in zip(*each, strict=True)) for each in SENTENCES]
    for part in ("train", "dev", "test"):
        (folder / "ner" / "wnut17" / f"{part}.tsv").write_text(
            "\n".join(blocks * copies), encoding="utf-8"
        )


def write_sentiment(folder: Path, rows: int = 24) -> None:
    """Write `cls/uci_sentiment`, whose label is the first word."""
    (folder / "cls" / "uci_sentiment").mkdir(parents=True)
    lines = [f"{n % 2}\t{('bad', 'good')[n % 2]} thing {n}" for n in range(rows)]
    for part in ("train", "test"):
        (folder / "cls" / "uci_sentiment" / f"{part}.tsv").write_text(
            "\n".join(["label\ttext", *lines, ""]), encoding="utf-8"
        )
