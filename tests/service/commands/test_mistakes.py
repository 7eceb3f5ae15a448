"""No command ends in a traceback for a file that is missing, a folder, or damaged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from elmo_serve.cli import main
from tests.support.command_line import elmo
from tests.support.servers import SMALL

Arguments = Callable[[Path, Path], list[object]]
"""The arguments of a command that reads the first path, and may write below the second."""

_WHAT = ("--kind", "token", "--label", "upos", "--seeds", 1)

READS: dict[str, list[Arguments]] = {
    "convert": [
        lambda file, out: [file, out / "pair"],
        lambda file, _: [SMALL, file / "deeper.safetensors"],
    ],
    "download": [lambda file, _: ["small", "--cache", file, "--mirror", "http://localhost:1"]],
    "embed": [
        lambda file, out: [file, out / "v.npz", "--top", "--model", SMALL],
        lambda file, out: [__file__, out / "v.npz", "--top", "--model", file],
        lambda file, out: [__file__, file / "deeper.npz", "--top", "--model", SMALL],
    ],
    "fit": [
        lambda file, out: ["t", *_WHAT, "--train", file, "--out", out, "--model", SMALL],
        lambda file, out: ["t", *_WHAT, "--train", __file__, "--out", out, "--model", file],
    ],
    "index": [
        lambda file, out: [file, out / "index", "--model", SMALL],
        lambda file, out: [__file__, out / "index", "--model", file],
        lambda file, _: [__file__, file / "deeper", "--model", SMALL],
    ],
    "info": [lambda file, _: [file]],
    "look": [lambda file, _: ["a b", "a c", "--model", file]],
    "models": [lambda file, _: ["--cache", file]],
    "perplexity": [lambda file, _: [file, file]],
    "score": [lambda file, _: [file, "--model", SMALL]],
    "serve": [
        lambda file, _: ["--model", file / "deeper"],
        lambda file, _: ["--tasks", file / "deeper", "--model", "nowhere"],
    ],
    "tasks": [
        lambda file, out: [file, out / "tasks"],
        lambda file, _: [SMALL, file],
    ],
    "tokenize": [lambda file, _: [file]],
    "train": [
        lambda file, out: [out / "run", "--text", file, "--shape", "tiny", "--steps", 1],
        lambda file, out: [out / "run", "--text", __file__, "--weights", file, "--steps", 1],
        lambda file, _: [file / "deeper", "--text", __file__, "--shape", "tiny", "--steps", 1],
    ],
}


def test_every_command_is_here() -> None:
    listed = {name for name, command in main.commands.items() if not command.hidden}

    assert listed == READS.keys()


@pytest.mark.parametrize("kind", ["missing", "folder", "damaged"])
@pytest.mark.parametrize("name", READS)
def test_a_wrong_file_is_one_line(name: str, kind: str, tmp_path: Path) -> None:
    file, out = tmp_path / "given", tmp_path / "out"
    out.mkdir()
    if kind == "folder":
        file.mkdir()
    elif kind == "damaged":
        file.write_bytes(b"\x89HDF\r\n\x1a\n\xff\xfe\x00 damaged \x80\n")

    for arguments in READS[name]:
        found = elmo(name, *arguments(file, out), ELMO_OFFLINE="1")

        # `elmo` catches what it expects; all else is in `exception`, and a traceback for a user.
        assert isinstance(found.exception, SystemExit | None), (arguments(file, out), found)
        lines = found.stderr.strip().splitlines()
        if found.exit_code:
            assert lines[-1].startswith(("elmo: ", "Error: ")), lines
            assert "Traceback" not in found.output
