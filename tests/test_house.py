"""The architecture of docs/design.md, read from the imports of every source file.

Imports inside functions count as well; only those for the type checker do not.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = {"elmo_model": "model", "elmo_serve": "service", "elmo_client": "client"}
SOURCES = {
    ".".join(path.relative_to(ROOT / folder).with_suffix("").parts).removesuffix(".__init__"): path
    for package, folder in FOLDERS.items()
    for path in sorted((ROOT / folder / package).rglob("*.py"))
}
TESTS = ROOT / "tests"

WEB = {"fastapi", "starlette", "uvicorn", "httpx", "prometheus_client", "pydantic", "click"}
HEAVY = {
    *("torch", "h5py", "numpy", "pyarrow", "triton", "nltk", "sacremoses", "ray"),
    *("fastapi", "starlette", "uvicorn", "uvloop", "pydantic", "httpx", "anyio", "rich"),
}
"""Libraries that a function may import when it runs: slow to import, or optional."""

TORCH = {
    "elmo_serve.workers.model_loading",
    "elmo_serve.workers.model_worker",
    "elmo_serve.workers.vectors",
    "elmo_serve.files.in_process",
    "elmo_serve.elmo_embedder",
}
"""The modules of the service that use the network, beside `jobs/` and the commands."""


def top(name: str) -> str:
    return name.partition(".")[0]


def tree(module: str) -> ast.Module:
    return ast.parse(SOURCES[module].read_text(encoding="utf-8"))


@cache
def imports(module: str, *, local: bool = True) -> frozenset[str]:
    """Return the modules that a module imports; without `local`, those outside functions alone."""
    return frozenset(_named(tree(module), local=local, only_local=False))


@cache
def local_imports(module: str) -> frozenset[str]:
    """Return the modules that are imported inside the functions of a module."""
    return frozenset(_named(tree(module), local=True, only_local=True))


def _named(node: ast.AST, *, local: bool, only_local: bool) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import) and not only_local:
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and not only_local:
            assert child.level == 0, "imports are absolute"
            assert child.module is not None
            for alias in child.names:
                inner = f"{child.module}.{alias.name}"
                yield inner if inner in SOURCES else child.module
        elif isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            yield from _named_in(child.orelse, local=local, only_local=only_local)
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            if local:
                yield from _named(child, local=True, only_local=False)
        else:
            yield from _named(child, local=local, only_local=only_local)


def _named_in(nodes: list[ast.stmt], *, local: bool, only_local: bool) -> Iterator[str]:
    for node in nodes:
        yield from _named(ast.Module([node], []), local=local, only_local=only_local)


def inside(*packages: str) -> list[str]:
    return [m for m in SOURCES if m in packages or m.startswith(tuple(f"{p}." for p in packages))]


@cache
def reached(start: str, *, local: bool = True) -> frozenset[str]:
    """Return every module and library that a module needs, directly or through another one."""
    found: set[str] = set()
    ahead = [start]
    while ahead:
        for name in imports(ahead.pop(), local=local) - found:
            found.add(name)
            if name in SOURCES:
                ahead.append(name)
    return frozenset(found)


def libraries(names: frozenset[str]) -> set[str]:
    return {top(name) for name in names}


def test_the_sources_are_found() -> None:
    assert {top(module) for module in SOURCES} == set(FOLDERS)
    assert len(SOURCES) > 150
    assert "torch" in libraries(imports("elmo_serve.workers.model_worker"))
    assert any(local_imports(module) for module in inside("elmo_serve.commands"))


@pytest.mark.parametrize("module", inside("elmo_model"))
def test_the_model_imports_no_service_and_no_web_library(module: str) -> None:
    assert not libraries(imports(module)) & {"elmo_serve", "elmo_client", *WEB}


@pytest.mark.parametrize("module", inside("elmo_client"))
def test_the_client_imports_neither_the_model_nor_the_service(module: str) -> None:
    foreign = {"elmo_model", "elmo_serve", "torch", *WEB} - {"httpx"}

    assert not libraries(imports(module)) & foreign
    assert "h5py" not in libraries(imports(module, local=False))  # optional


@pytest.mark.parametrize("module", inside("elmo_model.layers"))
def test_the_layers_of_the_paper_know_nothing_of_inference(module: str) -> None:
    assert not [name for name in imports(module) if name.startswith("elmo_model.inference")]


@pytest.mark.parametrize("module", inside("elmo_serve"))
def test_only_a_few_modules_of_the_service_use_torch(module: str) -> None:
    if module in TORCH or module.startswith(("elmo_serve.commands.", "elmo_serve.jobs.")):
        return

    assert "torch" not in libraries(imports(module))


HTTP_OUTSIDE = {
    "elmo_serve.capacity.volume",
    "elmo_serve.commands.serve",
    "elmo_serve.distributed.ray_serve",
    "elmo_serve.files.outputs.npz",
    "elmo_serve.files.resume",
    "elmo_serve.load_test.checker",
    "elmo_serve.workers.json_pool",
    "elmo_serve.workers.json_worker",
}
"""The modules outside `http/` that use it: to serve, to read a body, to use an encoding."""


@pytest.mark.parametrize(
    "module", sorted(set(inside("elmo_serve")) - set(inside("elmo_serve.http")))
)
def test_only_a_few_modules_outside_http_import_it(module: str) -> None:
    if module in HTTP_OUTSIDE:
        return

    assert not [name for name in imports(module) if name.startswith("elmo_serve.http")]


@pytest.mark.parametrize("module", inside("elmo_serve.scheduling"))
def test_scheduling_knows_no_web_framework_and_no_tensor(module: str) -> None:
    foreign = {"torch", "orjson", *WEB} - {"prometheus_client"}

    assert not libraries(imports(module)) & foreign
    assert not [name for name in imports(module) if name.startswith("elmo_serve.http")]


PURE = [m for m in inside("elmo_serve.scheduling") if not m.endswith((".scheduling", ".engine"))]


@pytest.mark.parametrize("module", PURE)
def test_all_of_scheduling_but_the_engine_can_be_simulated(module: str) -> None:
    """A simulation gives the clock: no asyncio, no time of its own."""
    assert not libraries(imports(module)) & {"asyncio", "time"}


@pytest.mark.parametrize("module", inside("elmo_serve.workers"))
def test_workers_know_no_web_framework(module: str) -> None:
    assert not libraries(imports(module)) & (WEB - {"prometheus_client"})
    assert not [name for name in imports(module) if name.startswith("elmo_serve.http.routes")]


@pytest.mark.parametrize("module", inside("elmo_serve.http"))
def test_the_http_side_reaches_no_torch_at_import(module: str) -> None:
    assert "torch" not in libraries(reached(module, local=False))


LAYERS = sorted(n for n in reached("elmo_model.elmo") if n in SOURCES)
SERVER = sorted(n for n in reached("elmo_serve.http.server") if n in SOURCES)


@pytest.mark.parametrize("module", [*LAYERS, *(m for m in SERVER if top(m) == "elmo_serve")])
def test_neither_layers_nor_the_server_know_a_file_format(module: str) -> None:
    formats = {"h5py", "pickle", "safetensors", "zipfile", "tarfile"}
    allowed = {
        "elmo_serve.workers.channel": {"pickle"},  # between a process and its own children
        "elmo_serve.http.media_types.safetensors": {"safetensors"},
        "elmo_serve.http.media_types.npz": {"zipfile"},
    }

    assert libraries(imports(module)) & formats <= allowed.get(module, set())


@pytest.mark.parametrize("module", [*LAYERS, *SERVER])
def test_nothing_below_the_command_line_reads_the_environment(module: str) -> None:
    nodes = list(ast.walk(tree(module)))
    # A child process may set a variable for a library that it imports afterwards.
    written = {
        id(node.value)
        for node in nodes
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
    }
    names = {
        node.attr for node in nodes if isinstance(node, ast.Attribute) and id(node) not in written
    }

    assert not names & {"environ", "getenv"}


def test_there_is_no_import_cycle() -> None:
    graph = {
        module: {name for name in imports(module) if name in SOURCES} - {module}
        for module in SOURCES
    }
    while leaves := [module for module, needs in graph.items() if not needs & set(graph)]:
        for leaf in leaves:
            del graph[leaf]

    assert not graph, "these import each other, or a module that does"


@pytest.mark.parametrize("module", SOURCES)
def test_only_heavy_and_optional_modules_are_imported_inside_functions(module: str) -> None:
    """One of this project's modules may be, where it imports a heavy library itself."""
    for name in local_imports(module):
        needs = libraries(reached(name, local=False)) if name in SOURCES else {top(name)}
        assert needs & HEAVY, f"{name} is light: import it at the top"


@pytest.mark.parametrize("module", ["elmo_serve.cli", *inside("elmo_serve.commands")])
def test_the_command_line_loads_heavy_libraries_inside_functions_alone(module: str) -> None:
    assert not libraries(reached(module, local=False)) & {"torch", "h5py", "fastapi", "pydantic"}


@pytest.mark.parametrize("path", SOURCES.values(), ids=str)
def test_no_file_is_named_like_a_module_that_it_hides(path: Path) -> None:
    """A script started from its own folder finds its neighbours first."""
    name = path.parent.name if path.stem == "__init__" else path.stem
    assert name not in {"queue", "types", "json", "logging", "signal", "select", "socket", "time"}


@pytest.mark.parametrize("module", SOURCES)
def test_every_module_introduces_itself_in_one_line(module: str) -> None:
    text = SOURCES[module].read_text(encoding="utf-8")
    docstring = ast.get_docstring(tree(module)) or ""

    first = docstring.splitlines()[0] if docstring else ""
    assert first.endswith((".", ":", "`")), first
    assert text.startswith('"""' + first)


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("module", ["elmo_serve.http.server", "elmo_serve.cli", "elmo_client"])
def test_the_front_process_and_the_client_load_no_torch(module: str) -> None:
    found = run(
        f"import sys, {module}\n"
        "heavy = {'torch', 'h5py', 'elmo_model.elmo'} & set(sys.modules)\n"
        "sys.exit(', '.join(sorted(heavy)) or 0)"
    )

    assert found.returncode == 0, found.stderr


def test_help_loads_nothing_heavy() -> None:
    found = run(
        "import sys\n"
        "from elmo_serve.cli import main\n"
        "main(['--help'], standalone_mode=False)\n"
        "heavy = {'torch', 'h5py', 'fastapi', 'pydantic', 'numpy'} & set(sys.modules)\n"
        "sys.exit(', '.join(sorted(heavy)) or 0)"
    )

    assert found.returncode == 0, found.stderr


DATA = {
    "elmo_model.neighbours.errors",  # an exception
    "elmo_model.neighbours.limits",  # values
    "elmo_model.neighbours.search",  # a protocol
    "elmo_serve.distributed.messages",  # values
    "elmo_serve.files.sentence",  # a value and an exception
    "elmo_serve.http.schemas.open_inference",  # schemas of responses
    "elmo_serve.http.schemas.problems",
    "elmo_serve.http.schemas.server",
    "elmo_serve.http.schemas.tasks",
    "elmo_serve.http.schemas.vectors",
    "elmo_serve.jobs.active_job",  # values
    "elmo_serve.jobs.fit_messages",  # values
    "elmo_serve.model_cache.download_error",  # an exception
    "elmo_serve.scheduling.interface",  # protocols
    "elmo_serve.workers.messages",  # values and a protocol
    "elmo_serve.workers.task_messages",  # values
}
"""Modules without behaviour of their own: values, exceptions, protocols."""


def test_every_module_has_a_test_file_of_its_name() -> None:
    missing = [
        module
        for module, path in SOURCES.items()
        if path.stem not in ("__init__", "__main__")
        and module not in DATA
        and not _test_file(module).is_file()
    ]

    assert not missing


def _test_file(module: str) -> Path:
    package, *folders, name = module.split(".")
    return TESTS.joinpath(FOLDERS[package], *folders, f"test_{name}.py")
