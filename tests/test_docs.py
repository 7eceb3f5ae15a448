"""The pages of docs/: which there are, their form, and that every link leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from elmo_serve.cli import main

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


PAGES = sorted(DOCS.glob("*.md"))
INDEX = text_of(DOCS / "README.md")
NAMES = {path.name for path in PAGES} - {"README.md"}


def prose(text: str) -> list[str]:
    """Return the lines outside of blocks and tables."""
    without = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return [line for line in without.splitlines() if not line.startswith("|")]


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings, as GitHub and the site make them."""
    headings = [line.lstrip("#") for line in prose(text) if re.match("#+ ", line)]
    plain = [re.sub(r"[^\w\- ]", "", heading.strip().lower()) for heading in headings]
    return {heading.replace(" ", "-") for heading in plain}


def test_fifteen_pages_stand_in_four_groups() -> None:
    site = yaml.safe_load(text_of(ROOT / "mkdocs.yml"))
    groups = {name: entry for each in site["nav"][1:] for name, entry in each.items()}
    pages = [page for group in groups.values() for entry in group for page in entry.values()]

    assert list(groups) == ["Use", "Models", "Run", "Contribute"]
    assert len(pages) == 15
    assert set(pages) == NAMES


def test_the_index_and_llms_list_every_page_in_one_order() -> None:
    llms = text_of(DOCS / "llms.txt")
    listed = re.findall(r"^\| \[[^]`]+\]\((\w+\.md)\) \|", INDEX, re.MULTILINE)
    for_programs = re.findall(r"^- \[[^]]+\]\((\w+\.md)\)", llms, re.MULTILINE)

    assert set(listed) == NAMES
    assert for_programs == [*listed, "README.md"]


def test_the_index_lists_every_command() -> None:
    commands = re.findall(r"^\| \[`elmo ([a-z-]+)`\]", INDEX, re.MULTILINE)

    assert sorted(commands) == sorted(
        name for name, command in main.commands.items() if not command.hidden
    )


@pytest.mark.parametrize(
    "path",
    [*PAGES, DOCS / "llms.txt", ROOT / "README.md", ROOT / "client" / "README.md"],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_links_lead_to_files_and_headings(path: Path) -> None:
    for link in re.findall(r"\]\((?!\w+:)([^)\s]+)\)", text_of(path)):
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        assert target.exists(), link
        assert DOCS not in path.parents or DOCS in target.parents, f"{link}: not on the site"
        assert not anchor or anchor in anchors(text_of(target)), link


def test_a_link_to_an_old_address_is_not_made() -> None:
    old = {path.name for path in PAGES if path not in PAGES}
    links = {
        (path.name, name)
        for path in [*PAGES, ROOT / "README.md", ROOT / "client" / "README.md"]
        for name in re.findall(r"\]\((?:\.\./)?(?:docs/)?(\w+\.md)", text_of(path))
    }

    assert {(path, name) for path, name in links if name in old} == set()


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


def test_the_program_names_no_old_address() -> None:
    old = "|".join(path.stem for path in PAGES if path not in PAGES)
    folders = [ROOT / name for name in ("model", "service", "client", "docker", "benchmarks")]
    files = [path for folder in folders for path in folder.rglob("*.*") if path.is_file()]

    assert {
        (str(path.relative_to(ROOT)), name)
        for path in [*files, *ROOT.glob("*.yml"), *ROOT.glob("tests/*/**/*.py")]
        if path.suffix in {".py", ".yml", ".yaml", ".cfg", ".js", ".html"}
        for name in re.findall(rf"docs/(?:{old})\.md", text_of(path))
    } == set()
