"""One browser, one Node.js and one server of the built-in English model, for the whole session."""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from elmo_serve.http.routes.page import FOLDER
from tests.support.browser import Page
from tests.support.page import WordPage
from tests.support.servers import Running, running

NER = {"weights": [0.5, -1.25, 2.0], "gamma": 1.5}

NODE = """
const lines = require('readline').createInterface({input: process.stdin});
(async () => {
  for await (const line of lines) {
    const [module, expression, given] = JSON.parse(line);
    try {
      const value = new Function('page', 'given', `return ${expression}`);
      console.log(JSON.stringify([await value(await import(module), given), null]));
    } catch (error) {
      console.log(JSON.stringify([null, error.stack]));
    }
  }
})();
"""


@pytest.fixture(scope="session")
def english(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server of `english` with a task, and one that only the server can compute."""
    folder = tmp_path_factory.mktemp("english")
    with running(folder, model="english", tasks=folder / "tasks") as server:
        for name, task in (("ner", NER), ("normed", NER | {"layer_norm": True})):
            server.serve_task(name, **task)
        yield server


@pytest.fixture
def page(chromium: Page, english: Running) -> Iterator[WordPage]:
    """The page, opened anew in a window of 1280 x 900; it must log no error."""
    chromium.resize(1280, 900)
    chromium.prefer(color_scheme="light", reduced_motion="reduce")
    found = WordPage(chromium, english.url)
    found.open()
    yield found
    assert found.faults() == []


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Any]]:
    """`node(module, expression, *given)`: an expression over a module `page` and a list `given`."""
    program = shutil.which("node")
    if program is None:
        pytest.skip("Node.js is not installed: the modules of the page are not run")
    folder = tmp_path_factory.mktemp("node")
    (folder / "package.json").write_text('{"type": "module"}')
    for script in FOLDER.glob("*.js"):
        shutil.copy(script, folder)
    pipe = subprocess.PIPE
    with subprocess.Popen([program, "-e", NODE], text=True, stdin=pipe, stdout=pipe) as process:
        assert process.stdin is not None and process.stdout is not None

        def run(module: str, expression: str, *given: object) -> Any:
            assert process.stdin is not None and process.stdout is not None
            request = [f"file://{folder / module}", expression, given]
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            found, error = json.loads(process.stdout.readline())
            assert error is None, error
            return found

        yield run
        process.stdin.close()
