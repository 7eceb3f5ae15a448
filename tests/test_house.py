"""Who may know whom: the directions in which imports point, read from the source."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = {
    ".".join(path.relative_to(ROOT / folder).with_suffix("").parts).removesuffix(".__init__"): path
    for folder, package in (
        ("model", "elmo_model"),
        ("service", "elmo_serve"),
        ("client", "elmo_client"),
    )
    for path in sorted((ROOT / folder / package).rglob("*.py"))
}
WEB = {"fastapi", "starlette", "uvicorn", "httpx", "prometheus_client", "pydantic", "click"}
NETWORK = {"torch", "elmo_model"}


def imports(module: str, *, at_import: bool = False) -> Iterator[str]:
    """Yield the modules that a module names; `at_import` leaves out those inside functions.

    What is only for the type checker, or for a module that is run, is left out.
    """
    yield from _named(ast.parse(SOURCES[module].read_text(encoding="utf-8")), at_import)


def _named(node: ast.AST, at_import: bool) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "imports are absolute"
            assert child.module is not None
            for alias in child.names:
                inner = f"{child.module}.{alias.name}"
                yield inner if inner in SOURCES else child.module
        elif not _is_left_out(child, at_import):
            yield from _named(child, at_import)


def _is_left_out(node: ast.AST, at_import: bool) -> bool:
    if isinstance(node, ast.If):
        return ast.unparse(node.test) in ("TYPE_CHECKING", "__name__ == '__main__'")
    return at_import and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def top(name: str) -> str:
    return name.partition(".")[0]


def inside(package: str) -> list[str]:
    return [module for module in SOURCES if module == package or module.startswith(package + ".")]


def reached(start: str, package: str) -> list[str]:
    """Return the modules of a package that `start` needs, itself among them."""
    found = {start}
    ahead = [start]
    while ahead:
        for name in imports(ahead.pop()):
            if name in SOURCES and top(name) == package and name not in found:
                found.add(name)
                ahead.append(name)
    return sorted(found)


SERVER = reached("elmo_serve.http.server", "elmo_serve")
LAYERS = reached("elmo_model.elmo", "elmo_model")


def test_the_sources_are_found() -> None:
    assert len(inside("elmo_model")) > 15
    assert len(SERVER) > 30
    assert len(LAYERS) > 10
    assert "torch" in set(imports("elmo_serve.workers.model_worker"))


@pytest.mark.parametrize("module", inside("elmo_model"))
def test_the_model_knows_nothing_of_the_service(module: str) -> None:
    assert not {top(name) for name in imports(module)} & {"elmo_serve", "elmo_client", *WEB}


@pytest.mark.parametrize("module", SERVER)
def test_only_the_runner_knows_the_network(module: str) -> None:
    known = {name for name in imports(module) if top(name) in NETWORK}

    if module.endswith((".tasks", ".task_file")):
        assert known <= {"elmo_model.task", "elmo_model.atomic_files"}
    elif module != "elmo_serve.workers.model_worker":
        assert not known


@pytest.mark.parametrize("module", ["elmo_serve.cli", *inside("elmo_serve.commands")])
def test_the_command_line_imports_the_network_only_where_it_is_needed(module: str) -> None:
    named = {top(name) for name in imports(module, at_import=True)}

    assert not named & {*NETWORK, "fastapi", "pydantic"}


@pytest.mark.parametrize("module", ["elmo_model.task", "elmo_model.atomic_files"])
def test_what_the_service_reads_of_the_model_needs_no_torch(module: str) -> None:
    assert not {"torch", "numpy"} & {top(name) for name in imports(module)}


@pytest.mark.parametrize("module", inside("elmo_serve.scheduling"))
def test_batching_knows_no_web_and_no_tensor(module: str) -> None:
    foreign = {"torch", "orjson", *WEB} - {"prometheus_client"}

    assert not {top(name) for name in imports(module)} & foreign
    assert not [
        n
        for n in imports(module)
        if n.startswith(("elmo_serve.http.routes", "elmo_serve.http.app"))
    ]


@pytest.mark.parametrize("module", inside("elmo_serve.workers"))
def test_workers_know_no_web(module: str) -> None:
    assert not {top(name) for name in imports(module)} & WEB
    assert not [
        n
        for n in imports(module)
        if n.startswith(("elmo_serve.http.routes", "elmo_serve.http.app"))
    ]


@pytest.mark.parametrize("module", inside("elmo_client"))
def test_the_client_knows_neither_the_framework_nor_the_network(module: str) -> None:
    named = set(imports(module, at_import=True))

    assert not {top(name) for name in named} & ({"torch", "h5py"} | WEB - {"httpx"})
    assert {name for name in named if top(name) == "elmo_model"} <= {"elmo_model.task"}


@pytest.mark.parametrize("module", inside("elmo_serve.http.routes"))
def test_routes_touch_no_worker(module: str) -> None:
    allowed = {
        "elmo_serve.workers.messages",
        "elmo_serve.workers.json_worker",
        "elmo_serve.workers.shared_memory",
    }

    named = {name for name in imports(module) if name.startswith("elmo_serve.workers")}

    assert named <= allowed


@pytest.mark.parametrize("module", [*LAYERS, *SERVER])
def test_neither_layers_nor_the_server_know_a_file_format(module: str) -> None:
    formats = {"h5py", "pickle", "safetensors", "zipfile", "tarfile"}
    allowed = {
        "elmo_serve.workers.channel": {"pickle"},  # between a process and its own children
        "elmo_serve.http.media_types.safetensors": {"safetensors"},
        "elmo_serve.http.media_types.npz": {"zipfile"},
    }

    assert {top(name) for name in imports(module)} & formats <= allowed.get(module, set())


@pytest.mark.parametrize("module", [*LAYERS, *SERVER])
def test_nothing_reads_the_environment(module: str) -> None:
    """Settings are made once, at the door; click reads the variables there."""
    tree = ast.parse(SOURCES[module].read_text(encoding="utf-8"))

    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}

    assert not names & {"environ", "getenv"}


def test_there_is_no_import_cycle() -> None:
    graph = {
        module: {name for name in imports(module, at_import=True) if name in SOURCES} - {module}
        for module in SOURCES
    }
    while leaves := [module for module, needs in graph.items() if not needs & set(graph)]:
        for leaf in leaves:
            del graph[leaf]

    assert not graph, "these import each other, or what does"


def test_no_file_shadows_the_standard_library() -> None:
    for path in SOURCES.values():
        name = path.parent.name if path.stem == "__init__" else path.stem
        inside_a_package = path.parent != ROOT
        assert name not in {"queue", "types", "json", "logging", "signal"} or not inside_a_package


@pytest.mark.parametrize("module", SOURCES)
def test_every_module_says_what_it_is_in_one_line(module: str) -> None:
    text = SOURCES[module].read_text(encoding="utf-8")
    if not text.strip():
        return

    docstring = ast.get_docstring(ast.parse(text)) or ""

    first = docstring.splitlines()[0] if docstring else ""
    assert first.endswith((".", ":", "`")), first
    assert text.startswith('"""' + first)


@pytest.mark.parametrize(
    "module", ["elmo_serve.http.app", "elmo_serve.http.server", "elmo_serve.cli"]
)
def test_the_front_does_not_load_torch(module: str) -> None:
    program = (
        f"import sys, {module}\n"
        "heavy = {'torch', 'h5py', 'elmo_model.elmo'} & set(sys.modules)\n"
        "sys.exit(', '.join(sorted(heavy)) or 0)"
    )

    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert run.returncode == 0, run.stderr


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import sys\n"
        "from elmo_serve.cli import main\n"
        "main(['--help'], standalone_mode=False)\n"
        "heavy = {'torch', 'h5py', 'fastapi', 'pydantic', 'numpy'} & set(sys.modules)\n"
        "sys.exit(', '.join(sorted(heavy)) or 0)"
    )

    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert run.returncode == 0, run.stderr
