"""Draws the pictures of docs/explore.md: the page of a new server, in a headless Chromium.

python -m tests.support.page_pictures docs/page
"""

import sys
import tempfile
from pathlib import Path

from tests.support.browser import browser
from tests.support.servers import running
from tests.support.word_page import WordPage


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
