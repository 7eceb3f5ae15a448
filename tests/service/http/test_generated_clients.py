"""Clients that code generators make from the OpenAPI document compile and talk to a server.

The tests skip where a generator is missing. They look for `openapi-generator-cli` (PyPI), `java`,
`go` and `openapi-python-client` (PyPI) on the PATH, and for `node` and the folder named by
NODE_MODULES, which holds openapi-typescript, openapi-fetch and typescript 5 (npm).
"""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from tests.support.servers import Running

BODY = {"sentences": [["The", "bank"], ["one"]], "layers": [1], "pooling": "mean"}

GO = """
package main

import (
	"context"
	"encoding/json"
	"os"

	elmo "github.com/GIT_USER_ID/GIT_REPO_ID"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	configuration := elmo.NewConfiguration()
	configuration.Servers = elmo.ServerConfigurations{{URL: os.Args[1]}}
	client := elmo.NewAPIClient(configuration)
	ctx := context.Background()

	request := elmo.NewEmbedRequest()
	request.SetSentences([][]string{{"The", "bank"}, {"one"}})
	request.SetLayers(elmo.Layers{ArrayOfInt32: &[]int32{1}})
	request.SetPooling("mean")
	embedded, _, err := client.VectorsAPI.Embed(ctx).EmbedRequest(*request).Execute()
	check(err)

	task := elmo.NewTaskBody([]float32{0.5, -1, 2})
	_, _, err = client.TasksAPI.PutTask(ctx, "generated").TaskBody(*task).Execute()
	check(err)
	kept, _, err := client.TasksAPI.GetTask(ctx, "generated").Execute()
	check(err)
	info, _, err := client.ServerAPI.GetInfo(ctx).Execute()
	check(err)
	_, _, err = client.TasksAPI.GetTask(ctx, "unknown").Execute()
	problem := err.(*elmo.GenericOpenAPIError).Model().(elmo.Problem)

	text := elmo.NewEmbeddingsRequest(elmo.Input{String: elmo.PtrString("It rains.")})
	created, _, err := client.OpenAIAPI.CreateEmbeddings(ctx).EmbeddingsRequest(*text).Execute()
	check(err)

	check(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"embeddings": embedded.Embeddings,
		"dimension":  embedded.Dimension,
		"gamma":      kept.Gamma,
		"layers":     info.Layers,
		"problem":    problem.Title,
		"text":       created.Data[0].Embedding.ArrayOfFloat32,
	}))
}
"""

TYPESCRIPT = """
import createClient from "openapi-fetch";
import type { paths } from "./schema.js";

declare const process: { argv: string[] };

const client = createClient<paths, "application/json" | "application/problem+json">({
  baseUrl: process.argv[2],
});

const embedded = await client.POST("/embed", {
  body: { sentences: [["The", "bank"], ["one"]], layers: [1], pooling: "mean" },
});
const path = { name: "generated" };
await client.PUT("/tasks/{name}", { params: { path }, body: { weights: [0.5, -1, 2] } });
const task = await client.GET("/tasks/{name}", { params: { path } });
const info = await client.GET("/info");
const missing = await client.GET("/tasks/{name}", { params: { path: { name: "unknown" } } });

const created = await client.POST("/v1/embeddings", { body: { input: "It rains." } });

if (!created.data || !embedded.data || !task.data) throw new Error("no data");
if (!info.data || !missing.error) throw new Error("no data");
const dimension: number = embedded.data.dimension;
const embeddings: (number[] | number[][] | number[][][])[] = embedded.data.embeddings;
const gamma: number = task.data.gamma;
const layers: number = info.data.layers;
const problem: string = missing.error.title;
const text: number[] | string = created.data.data[0]!.embedding;
console.log(JSON.stringify({ dimension, embeddings, gamma, layers, problem, text }));
"""

PYTHON = """
import json
import sys

from elmo_serve_client import Client
from elmo_serve_client.api.open_ai import create_embeddings
from elmo_serve_client.api.server import get_info
from elmo_serve_client.api.tasks import get_task, put_task
from elmo_serve_client.api.vectors import embed
from elmo_serve_client.models import (
    EmbeddingsRequest,
    EmbedRequest,
    EmbedRequestPooling,
    TaskBody,
)

client = Client(sys.argv[1])
request = EmbedRequest(
    [["The", "bank"], ["one"]], layers=[1], pooling=EmbedRequestPooling.MEAN
)
embedded = embed.sync(client=client, body=request)
created = create_embeddings.sync(client=client, body=EmbeddingsRequest("It rains."))
put_task.sync("generated", client=client, body=TaskBody([0.5, -1, 2]))
print(
    json.dumps(
        {
            "embeddings": embedded.embeddings,
            "dimension": embedded.dimension,
            "gamma": get_task.sync("generated", client=client).gamma,
            "layers": get_info.sync(client=client).layers,
            "problem": get_task.sync("unknown", client=client).title,
            "text": created.data[0].embedding,
        }
    )
)
"""


# openapi-python-client reads other media types as bytes only if it is told so.
CONFIGURATION = """
content_type_overrides:
  application/vnd.safetensors: application/octet-stream
"""


def tool(name: str) -> str:
    """Return the path of a program; skip the test where there is none."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"no {name} on the PATH: this generated client is not tested")
    return found


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    """Return the standard output of a program that succeeds."""
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def document(server: Running, tmp_path: Path) -> Path:
    file = tmp_path / "openapi.json"
    file.write_text(httpx.get(server.url + "/openapi.json").text)
    return file


def check(printed: str, client: httpx.Client) -> None:
    """Compare the output of a generated client with the responses of the server."""
    found = json.loads(printed)
    expected: dict[str, Any] = client.post("/embed", json=BODY).json()
    vectors = np.asarray(found.pop("embeddings"))
    np.testing.assert_allclose(vectors, np.asarray(expected["embeddings"]), atol=1e-5)
    created = client.post("/v1/embeddings", json={"input": "It rains."}).json()
    np.testing.assert_allclose(found.pop("text"), created["data"][0]["embedding"], atol=1e-5)
    assert found == {
        "dimension": expected["dimension"],
        "gamma": 1.0,
        "layers": 3,
        "problem": "Unknown task",
    }


@pytest.mark.usefixtures("tasks")
def test_go(document: Path, server: Running, client: httpx.Client, tmp_path: Path) -> None:
    generator, go, _ = tool("openapi-generator-cli"), tool("go"), tool("java")
    folder = tmp_path / "go"
    run(
        *(generator, "generate", "-i", document, "-g", "go", "-o", folder),
        *("--additional-properties", "packageName=elmo"),
        cwd=tmp_path,
    )
    (folder / "test" / "main").mkdir(parents=True)
    (folder / "test" / "main" / "main.go").write_text(GO)

    check(run(go, "run", "./test/main", server.url, cwd=folder), client)


@pytest.mark.usefixtures("tasks")
def test_typescript(document: Path, server: Running, client: httpx.Client, tmp_path: Path) -> None:
    node, modules = tool("node"), os.environ.get("NODE_MODULES")
    if not modules:
        pytest.skip("NODE_MODULES is not set: the TypeScript client is not tested")
    (tmp_path / "node_modules").symlink_to(modules)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "main.ts").write_text(TYPESCRIPT)
    scripts = tmp_path / "node_modules"
    run(
        *(node, scripts / "openapi-typescript" / "bin" / "cli.js", document),
        *("-o", tmp_path / "schema.ts"),
        cwd=tmp_path,
    )
    run(
        *(node, scripts / "typescript" / "bin" / "tsc", "main.ts", "--strict"),
        *("--module", "nodenext", "--target", "es2022", "--skipLibCheck"),
        *("--lib", "es2022,dom"),
        cwd=tmp_path,
    )

    check(run(node, "main.js", server.url, cwd=tmp_path), client)


@pytest.mark.usefixtures("tasks")
def test_python(document: Path, server: Running, client: httpx.Client, tmp_path: Path) -> None:
    generator = tool("openapi-python-client")
    (tmp_path / "config.yml").write_text(CONFIGURATION)
    run(
        *(generator, "generate", "--path", document, "--fail-on-warning"),
        *("--config", tmp_path / "config.yml"),
        *("--meta", "none", "--output-path", tmp_path / "elmo_serve_client"),
        cwd=tmp_path,
    )
    (tmp_path / "main.py").write_text(PYTHON)
    python = Path(generator).with_name("python")  # it has the libraries that the client needs

    check(run(python, "main.py", server.url, cwd=tmp_path, PYTHONPATH=str(tmp_path)), client)
