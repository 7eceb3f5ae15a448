"""The pages of docs/: which there are, their form and sizes; every link leads somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from elmo_serve.cli import main

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
NAMES = {path.name for path in PAGES} - {"README.md"}
LINKED = [*PAGES, DOCS / "llms.txt", ROOT / "README.md", ROOT / "client" / "README.md"]


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def words(*paths: Path) -> int:
    return sum(len(text_of(path).split()) for path in paths)


INDEX = text_of(DOCS / "README.md")


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings, as GitHub and the site make them."""
    without = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", without, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.strip().lower()).replace(" ", "-") for each in headings}


def test_the_pages_stand_in_four_groups_and_in_one_order() -> None:
    site = yaml.safe_load(text_of(ROOT / "mkdocs.yml"))
    groups = {name: entry for each in site["nav"][1:] for name, entry in each.items()}
    pages = [page for group in groups.values() for entry in group for page in entry.values()]
    listed = re.findall(r"^\| \[[^]`]+\]\((\S+\.md)\) \|", INDEX, re.MULTILINE)
    for_programs = re.findall(
        r"^- \[[^]]+\]\((\S+\.md)\)", text_of(DOCS / "llms.txt"), re.MULTILINE
    )

    assert list(groups) == ["Use", "Models", "Run", "Contribute"]
    assert set(pages) == NAMES
    assert pages == listed
    assert for_programs == [*listed, "README.md"]


def test_documents_stay_short() -> None:
    assert words(ROOT / "README.md") <= 600
    assert words(ROOT / "CHANGELOG.md") <= 250
    assert words(*PAGES, DOCS / "llms.txt") <= 19_200


def test_the_index_lists_every_command() -> None:
    section = INDEX.partition("\n## Commands\n")[2].partition("\nExit codes")[0]
    commands = re.findall(r"\[`elmo ([a-z-]+)`\]", section)

    assert sorted(commands) == sorted(
        name for name, command in main.commands.items() if not command.hidden
    )


@pytest.mark.parametrize("path", LINKED, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(path: Path) -> None:
    for link in re.findall(r"(?:\]\(|src=\")(?!\w+:)([^)\s\"]+)[)\"]", text_of(path)):
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        assert target.exists(), link
        assert DOCS not in path.parents or DOCS in target.parents, f"{link}: not on the site"
        assert not anchor or anchor in anchors(text_of(target)), link


def test_files_that_pages_name_exist() -> None:
    """A path may begin anywhere below the root: `inference/linear.py`."""
    files = [
        f"/{path.relative_to(ROOT)}" for path in ROOT.rglob("*.*") if ".venv" not in path.parts
    ]
    named = {
        name
        for path in PAGES
        for name in re.findall(r"`([\w-]+(?:/[\w-]+)+\.(?:py|md|yml|yaml|cfg))`", text_of(path))
    }

    assert named
    assert {name for name in named if not any(each.endswith(f"/{name}") for each in files)} == set()


@pytest.mark.parametrize("path", [*PAGES, ROOT / "README.md"], ids=lambda path: path.name)
def test_commands_are_those_of_the_active_environment(path: Path) -> None:
    """README and index say once how it is activated. No package index has elmo-serve."""
    text = text_of(path)

    assert re.findall(r"\.venv/bin/(?!activate)\S*", text) == []
    assert re.findall(r"pip install '?elmo-[\w-]+(?!\[)\b[`' ]", text) == []


def test_a_blank_line_ends_a_sentence_of_a_text_that_is_split() -> None:
    page = (DOCS / "own-text.md").read_text(encoding="utf-8")
    program = page.partition("<< 'END'\n")[2].partition("\nEND\n")[0]
    text = "Kapittel 1\n\nTeksten begynner her.\nDen g\u00e5r videre.\n \n\nSlutt\n"

    found = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", program],
        input=text,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )

    expected = ["Kapittel 1", "Teksten begynner her.", "Den g\u00e5r videre.", "Slutt"]
    assert found.stdout.splitlines() == expected
