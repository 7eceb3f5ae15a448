"""docs/clients.md: examples and tested settings, with the unmodified packages and `english`.

Each runs in an interpreter of its own. The packages are in the dependency group `clients`;
a test whose package is not installed is skipped.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.browser import Page
from tests.support.servers import Running, running

PAGE = (Path(__file__).parents[2] / "docs" / "clients.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
SETTINGS = dict(re.findall(r"^\| `([a-z-]+)` \| `(\w+\(.*?\))`", PAGE, re.MULTILINE))
"""The embedder of a package, as its row shows it."""

LANGCHAIN = f"""
from langchain_openai import OpenAIEmbeddings

embeddings = {SETTINGS["langchain-openai"]}
vectors = embeddings.embed_documents(["The bank of the river.", "It rains."])
assert [len(each) for each in [*vectors, embeddings.embed_query("rain")]] == [512, 512, 512]
"""

LLAMA_INDEX = f"""
from llama_index.embeddings.openai_like import OpenAILikeEmbedding

embedding = {SETTINGS["llama-index-embeddings-openai-like"]}
vectors = embedding.get_text_embedding_batch(["The bank of the river.", "It rains."])
assert [len(each) for each in [*vectors, embedding.get_query_embedding("rain")]] == [512, 512, 512]
"""

HAYSTACK = f"""
from haystack import Document
from haystack.components.embedders import OpenAIDocumentEmbedder, OpenAITextEmbedder
from haystack.utils import Secret

embedder = {SETTINGS["haystack-ai"]}
assert len(embedder.run("rain")["embedding"]) == 512
embedder = {SETTINGS["haystack-ai"].replace("TextEmbedder", "DocumentEmbedder")}
texts = ["The bank of the river.", "It rains."]
found = embedder.run([Document(content=text) for text in texts])["documents"]
assert [len(each.embedding) for each in found] == [512, 512]
"""

OFFLINE = {
    "HAYSTACK_TELEMETRY_ENABLED": "False",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "LANGSMITH_TRACING": "false",
}

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def english(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("english")
    with running(folder, cors_origins="*", tasks=folder / "tasks") as server:
        yield server


def example(title: str, language: str) -> str:
    (text,) = re.findall(rf"^```{language}\n(.*?)^```$", SECTIONS[title], re.DOTALL | re.MULTILINE)
    return str(text)


def require(package: str) -> None:
    """Skip the test where a package is missing."""
    try:
        found = importlib.util.find_spec(package)
    except ModuleNotFoundError:
        found = None
    if found is None:
        pytest.skip(f"{package} is not installed (pip install --group clients): it is not tested")


def run(server: Running, folder: Path, program: str, **variables: str) -> str:
    """Return the output of a Python program that succeeds."""
    done = subprocess.run(
        [sys.executable, "-c", program.replace("http://127.0.0.1:8000", server.url)],
        cwd=folder,
        env={**os.environ, **OFFLINE, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("package", "program"),
    [
        ("llama_index.embeddings.openai_like", LLAMA_INDEX),
        ("haystack", HAYSTACK),
    ],
)
def test_the_setting_of_a_package_works(
    english: Running, tmp_path: Path, package: str, program: str
) -> None:
    require(package)

    run(english, tmp_path, program)


def test_the_example_of_curl_runs(english: Running) -> None:
    command = example("curl", "sh").replace("http://127.0.0.1:8000", english.url)

    done = subprocess.run(["sh", "-euc", command], capture_output=True, text=True, check=True)

    assert len(json.loads(done.stdout)["data"]) == 2


def test_the_example_of_javascript_runs_in_a_page_of_another_origin(
    english: Running, chromium: Page
) -> None:
    script = example("JavaScript", "js").replace("http://127.0.0.1:8000", english.url)

    # `/docs` and `/` have a Content-Security-Policy, which forbids requests to other origins.
    chromium.open(english.url.replace("127.0.0.1", "localhost") + "/health/live")
    width = chromium.run(f"(async () => {{ {script} return data[0].embedding.length; }})()")

    assert width == 512


OPENAI = """
import json
import openai

client = openai.OpenAI(base_url="http://127.0.0.1:8000/v1", api_key="any", max_retries=0)


def error(**options):
    try:
        client.embeddings.create(**options)
    except openai.APIStatusError as error:
        return [type(error).__name__, error.code, error.param, error.message]


coded = client.embeddings.create(model="english", input="It rains.")
plain = client.embeddings.create(model="english", input="It rains.", encoding_format="float")
tokens = client.embeddings.create(model="english", input=[["It", "rains", "."]])
vectors = [each.data[0].embedding for each in (coded, plain, tokens)]
print(json.dumps({
    "difference": max(max(abs(a - b) for a, b in zip(vectors[0], other)) for other in vectors[1:]),
    "usage": [coded.usage.prompt_tokens, coded.usage.total_tokens],
    "model": client.models.retrieve("english").id,
    "ids": error(model="english", input=[[101, 2003]]),
    "unknown": error(model="text-embedding-3-small", input="a"),
    "empty": error(model="english", input=["a", ""]),
    "dimensions": error(model="english", input="a", dimensions=8),
}))
"""


def test_openai_runs_its_example_and_reads_base64_usage_and_errors(
    english: Running, tmp_path: Path
) -> None:
    require("openai")

    # One process for both: the package takes a second to import.
    found = json.loads(run(english, tmp_path, example("openai", "python") + OPENAI))

    assert found["difference"] < 1e-6
    assert found["usage"] == [3, 3]
    assert found["model"] == "english"
    assert found["ids"][:3] == ["BadRequestError", "invalid_request", "input"]
    assert "check_embedding_ctx_length=False" in found["ids"][3]
    assert found["unknown"][:2] == ["NotFoundError", "model_not_found"]
    assert "'english'" in found["unknown"][3]
    assert found["empty"][0] == "BadRequestError" and "/input/1" in found["empty"][3]
    assert found["dimensions"][:3] == ["BadRequestError", "invalid_request", "dimensions"]
    assert "512" in found["dimensions"][3]


LANGCHAIN_IDS = """
import openai
from langchain_openai import OpenAIEmbeddings

embeddings = OpenAIEmbeddings(base_url="http://127.0.0.1:8000/v1", api_key="any", model="english")
try:
    embeddings.embed_query("It rains.")
except openai.BadRequestError as error:
    print(error.message)
"""


def test_the_setting_of_langchain_works_and_its_default_is_refused_with_the_option_that_helps(
    english: Running, tmp_path: Path
) -> None:
    """Its token ids need a file of OpenAI's tokenizer, which LlamaIndex comes with."""
    require("langchain_openai")
    require("llama_index.core")
    core = importlib.util.find_spec("llama_index.core")
    assert core is not None and core.origin is not None
    cache = Path(core.origin).parent / "_static" / "tiktoken_cache"

    message = run(english, tmp_path, LANGCHAIN + LANGCHAIN_IDS, TIKTOKEN_CACHE_DIR=str(cache))

    assert "check_embedding_ctx_length=False" in message
