"""The page of `GET /` in a headless Chromium, as a user sees it.

with browser(folder) as chromium:
    page = WordPage(chromium, server.url)
    page.open()
    page.example("bank")
    page.similarities()

`python -m tests.support.page docs/page` draws the pictures of docs/explore.md.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
from numpy.typing import NDArray

from tests.support.browser import Page, browser
from tests.support.servers import running

READY = "document.querySelector('main').ariaBusy === 'false'"


@dataclass(frozen=True, slots=True)
class WordPage:
    """The page of one server in one browser."""

    chromium: Page
    url: str

    def open(self) -> None:
        """Load the page and wait until it has nothing under way."""
        self.chromium.open(self.url + "/")
        self.wait()

    def wait(self) -> None:
        """Wait until no request is under way."""
        self.chromium.wait_for(READY)

    def example(self, word: str) -> None:
        """Pick an example."""
        self.chromium.run(
            "[...document.querySelectorAll('#examples button')]"
            f".find((button) => button.textContent === {json.dumps(word)}).click()"
        )
        self.wait()

    def compare(self, *texts: str) -> None:
        """Write sentences and press the button."""
        self.chromium.run(
            f"document.querySelector('#text').value = {json.dumps(chr(10).join(texts))}"
        )
        self.click("#sentences [type=submit]")

    def click(self, selector: str) -> None:
        """Click an element and wait until no request is under way."""
        self.chromium.run(f"document.querySelector({json.dumps(selector)}).click()")
        self.wait()

    def unfold(self) -> None:
        """Open every part that is folded."""
        self.chromium.run(
            "document.querySelectorAll('details').forEach((each) => each.open = true)"
        )

    def select(self, layers: str) -> None:
        """Choose a layer by its number, `average` or `mix`."""
        self.click(f"[name=selection][value='{layers}']")

    def set(self, field: str, value: float | str) -> None:
        """Set a field of the mixture, as a user who moves a slider or writes a number."""
        self.chromium.run(
            f"(() => {{ const field = document.querySelector({json.dumps(field)});"
            f"field.value = {json.dumps(value)};"
            "field.dispatchEvent(new Event('input', {bubbles: true}));"
            "field.dispatchEvent(new Event('change', {bubbles: true})); })()"
        )
        self.wait()

    def text(self, selector: str) -> str:
        """Return the text of an element, with plain minus signs."""
        found: str = self.chromium.run(
            f"document.querySelector({json.dumps(selector)}).textContent"
        )
        return found.replace("\N{MINUS SIGN}", "-")

    def texts(self, selector: str) -> list[str]:
        """Return the text of every such element, with plain minus signs."""
        found = self.chromium.run(
            f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => e.textContent)"
        )
        return [text.replace("\N{MINUS SIGN}", "-") for text in found]

    def is_shown(self, selector: str) -> bool:
        """Tell whether an element takes up space."""
        found: bool = self.chromium.run(
            f"document.querySelector({json.dumps(selector)})?.getClientRects().length > 0"
        )
        return found

    def similarities(self) -> list[float]:
        """Return the cosine that each token shows; 1 for the one they are compared with."""
        return [1.0 if text == "this" else float(text) for text in self.texts("#tokens .value")]

    def reference(self) -> int:
        """Return the number of the token that the others are compared with."""
        return self.texts("#tokens .value").index("this")

    def table(self) -> list[list[float]]:
        """Return the numbers of "Layer by layer", a list a row."""
        found = self.chromium.run(
            "[...document.querySelectorAll('#layers tbody tr')].map((row) =>"
            "[...row.querySelectorAll('td')].map((cell) => cell.textContent))"
        )
        return [[float(text.replace("\N{MINUS SIGN}", "-")) for text in row] for row in found]

    def map(self) -> NDArray[np.float64]:
        """Return the coordinates of each token in the table of the map: (tokens, 2)."""
        cells = [float(text) for text in self.texts("#map tbody td")]
        return np.array(cells).reshape(-1, 3)[:, 1:]

    def faults(self) -> list[Any]:
        """Return what the browser logged: errors, blocked files, exceptions."""
        return [
            *self.chromium.events("Runtime.exceptionThrown"),
            *(
                each["entry"]
                for each in self.chromium.events("Log.entryAdded")
                if each["entry"]["level"] == "error"
            ),
        ]

    def requests(self, path: str = "") -> list[str]:
        """Return `METHOD path` of the requests since the page was opened, of one path or all."""
        sent = [each["request"] for each in self.chromium.events("Network.requestWillBeSent")]
        found = [f"{each['method']} {urlsplit(each['url']).path}" for each in sent]
        return [each for each in found if each.endswith(path)]


@dataclass(frozen=True, slots=True)
class Layers:
    """The layers of some texts, asked for without the page: (L + 1, tokens, width), float64."""

    tokens: list[list[str]]
    vectors: NDArray[np.float64]
    means: NDArray[np.float64]

    @classmethod
    def of(cls, url: str, *texts: str, **options: str) -> Layers:
        """Ask a server."""
        body = httpx.post(url + "/embed", json={"text": texts, **options}, timeout=60).json()
        means = httpx.get(url + "/info/centre").json()["layers"]
        vectors = np.concatenate([np.array(each) for each in body["embeddings"]], axis=1)
        return cls(body["tokens"], vectors, np.array(means))

    @property
    def words(self) -> list[str]:
        """The tokens of all texts, in their order."""
        return [token for tokens in self.tokens for token in tokens]

    def centred(self, factors: list[float]) -> NDArray[np.float64]:
        """Return the weighted sum of the layers, less that of their means: (tokens, width)."""
        mixed = np.tensordot(factors, self.vectors - self.means[:, None], axes=1)
        return np.asarray(mixed)

    def cosines(self, factors: list[float], reference: int) -> NDArray[np.float64]:
        """Return the cosine of each token with one of them."""
        rows = self.centred(factors)
        unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return np.asarray(unit @ unit[reference])


def draw(folder: Path, scratch: Path) -> None:
    """Write `light.png`, `dark.png` and `phone.png`."""
    with (
        running(scratch / "server", model="english") as server,
        browser(scratch) as chromium,
    ):
        page = WordPage(chromium, server.url)
        chromium.prefer(color_scheme="light", reduced_motion="reduce")
        chromium.resize(1120, 900)
        page.open()
        page.open()  # the first one waits for the processes that split text
        (folder / "light.png").write_bytes(chromium.picture(height=1330))

        chromium.prefer(color_scheme="dark", reduced_motion="reduce")
        page.example("spring")
        page.select("mix")
        page.set("#weight-0", -2)
        page.set("#weight-1", 1)
        (folder / "dark.png").write_bytes(chromium.picture(height=1400))

        chromium.prefer(color_scheme="light", reduced_motion="reduce")
        chromium.resize(360, 700, is_phone=True)
        page.example("lead")
        page.select("2")
        chromium.run("scrollTo(0, document.querySelector('#results').offsetTop - 12)")
        (folder / "phone.png").write_bytes(chromium.picture())


def main() -> None:
    """Draw into the folder that the command line names."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        draw(folder, Path(scratch))


if __name__ == "__main__":
    main()
