"""The rules of the architecture that the contracts of import-linter in pyproject.toml cannot say.

They are read from the imports of every source file. Imports inside functions count as well, those
for the type checker in circles alone.
"""

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.support.checkpoint_formats import archive, state_of

ROOT = Path(__file__).parents[1]
FOLDERS = {"elmo_model": "model", "elmo_serve": "service", "elmo_client": "client"}
SOURCES = {
    ".".join(path.relative_to(ROOT / folder).with_suffix("").parts).removesuffix(".__init__"): path
    for package, folder in FOLDERS.items()
    for path in sorted((ROOT / folder / package).rglob("*.py"))
}

HEAVY = {
    *("torch", "h5py", "numpy", "pyarrow", "nltk", "sacremoses", "ray"),
    *("fastapi", "starlette", "uvicorn", "uvloop", "pydantic", "httpx", "anyio", "rich"),
    "opentelemetry",
}
"""Libraries that a function may import when it runs: slow to import, or optional."""

TORCH = {
    "elmo_serve.workers.language",
    "elmo_serve.workers.model_loading",
    "elmo_serve.workers.model_worker",
    "elmo_serve.workers.staging",
    "elmo_serve.workers.vectors",
    "elmo_serve.models.in_process",
    "elmo_serve.elmo_embedder",
}
"""The modules of the service that use the network, beside the commands."""


def top(name: str) -> str:
    return name.partition(".")[0]


@cache
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


def importers(modules: Iterable[str], *foreign: str) -> list[str]:
    """Return the modules that import one of these libraries or packages."""
    prefixes = tuple(f"{name}." for name in foreign)
    return [
        module
        for module in modules
        if any(f"{name}.".startswith(prefixes) for name in imports(module))
    ]


def test_only_a_few_modules_of_the_service_use_torch() -> None:
    allowed = {*TORCH, *inside("elmo_serve.commands")}

    assert not importers(set(inside("elmo_serve")) - allowed, "torch")


def test_the_http_side_reaches_no_torch_at_import() -> None:
    modules = inside("elmo_serve.http")

    assert not [m for m in modules if "torch" in libraries(reached(m, local=False))]


def layers_and_server() -> set[str]:
    starts = ("elmo_model.network.elmo", "elmo_serve.http.server")
    return {name for start in starts for name in reached(start) if name in SOURCES}


def test_neither_layers_nor_the_server_know_a_file_format() -> None:
    layers = reached("elmo_model.network.elmo")
    modules = {m for m in layers_and_server() if top(m) == "elmo_serve" or m in layers}

    assert not importers(modules, "h5py", "tarfile", "safetensors")
    # Between a process and its own children.
    assert {*importers(modules, "pickle")} == {"elmo_serve.processes.channel"}
    assert importers(modules, "zipfile") == ["elmo_serve.http.media_types.npz"]


def test_opentelemetry_has_two_importers() -> None:
    """FastAPI needs its API; the SDK and the exporter are an extra."""
    assert importers(SOURCES, "opentelemetry") == [
        "elmo_serve.http.context",
        "elmo_serve.http.telemetry",
    ]


def test_nothing_below_the_command_line_reads_the_environment() -> None:
    assert not [module for module in layers_and_server() if _reads_environment(module)]


def _reads_environment(module: str) -> bool:
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

    return bool(names & {"environ", "getenv"})


def test_no_modules_import_each_other() -> None:
    """A package and a module inside it count as two, which import-linter does not compare."""
    assert not circles({module: _all_imports(module) for module in SOURCES})


def _all_imports(module: str) -> set[str]:
    """Return the modules of this project that a module imports, for the type checker as well."""
    lines = [
        node for node in ast.walk(tree(module)) if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    found = _named(ast.Module(list[ast.stmt](lines), []), local=True, only_local=False)
    return {name for name in found if name in SOURCES}


def circles(graph: Mapping[str, set[str]]) -> set[frozenset[str]]:
    """Return the sets of names that need each other, directly or through others."""
    reach = {name: set(needs) - {name} for name, needs in graph.items()}
    for middle in graph:
        for needs in reach.values():
            if middle in needs:
                needs.update(reach[middle])
    return {
        frozenset({name, *(other for other in needs if name in reach[other])})
        for name, needs in reach.items()
        if name in needs
    }


def test_a_circle_is_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": set[str]()}

    assert circles(graph) == {frozenset("abc")}


def test_only_heavy_and_optional_modules_are_imported_inside_functions() -> None:
    """One of this project's modules may be, where it imports a heavy library itself."""
    light = [
        (module, name)
        for module in SOURCES
        for name in local_imports(module)
        if not HEAVY & (libraries(reached(name, local=False)) if name in SOURCES else {top(name)})
    ]

    assert not light, "import them at the top"


def test_the_command_line_loads_heavy_libraries_inside_functions_alone() -> None:
    heavy = {"torch", "h5py", "fastapi", "pydantic"}

    assert not libraries(reached("elmo_serve.cli", local=False)) & heavy


def test_no_file_is_named_like_a_module_that_it_hides() -> None:
    """A script started from its own folder finds its neighbours first."""
    names = {module.rpartition(".")[2] for module in SOURCES}

    hidden = {"queue", "types", "json", "logging", "signal", "select", "socket", "time"}
    assert not names & hidden


NOT_FOR_USERS = {
    "elmo_serve.errors.ServiceError",  # has a status; `elmo_serve.cli` catches it as well
}
"""Errors that another part of the program catches, outside the packages of the server."""


def test_every_other_error_has_the_base_that_the_command_line_catches() -> None:
    server = {*inside(*(f"elmo_serve.{name}" for name in ("http", "processes", "workers")))}
    built_in = {"Exception", "ValueError", "RuntimeError", "OSError", "LookupError", "KeyError"}
    found = {
        f"{module}.{node.name}"
        for module in {*inside("elmo_model", "elmo_serve")} - server
        for node in ast.walk(tree(module))
        if isinstance(node, ast.ClassDef) and {ast.unparse(base) for base in node.bases} & built_in
    }

    assert found - {"elmo_model.errors.ElmoError"} <= NOT_FOR_USERS


def test_every_module_introduces_itself_in_one_line() -> None:
    assert not [module for module in SOURCES if not _introduces_itself(module)]


def _introduces_itself(module: str) -> bool:
    text = SOURCES[module].read_text(encoding="utf-8")
    first = (ast.get_docstring(tree(module)) or "").partition("\n")[0]
    return first.endswith((".", ":", "`")) and text.startswith('"""' + first)


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("module", ["elmo_serve.http.server", "elmo_client", "elmo_model"])
def test_the_front_process_and_the_client_load_no_torch(module: str) -> None:
    found = run(
        f"import sys, {module}\n"
        "heavy = {'torch', 'h5py', 'elmo_model.network.elmo'} & set(sys.modules)\n"
        "sys.exit(', '.join(sorted(heavy)) or 0)"
    )

    assert found.returncode == 0, found.stderr


def test_opening_a_checkpoint_of_any_format_loads_no_compiler_of_torch(tmp_path: Path) -> None:
    """It takes seconds, and a few operations on the meta device load it."""
    golden = ROOT / "tests" / "golden"
    trained = archive(tmp_path / "model.tar.gz", state_of(golden / "allennlp" / "small"))
    paths = {
        "allennlp": golden / "allennlp" / "small",
        "allennlp-archive": trained,
        "elmoformanylangs": golden / "elmoformanylangs" / "word_and_char",
        "bilm-tf": golden / "tensorflow" / "bilm_tf",
        "tf-hub": golden / "tensorflow" / "tf_hub",
    }
    found = run(
        "import sys\n"
        "from elmo_model.models.opening import open_model\n"
        f"for path in {list(map(str, paths.values()))}:\n"
        "    print(open_model(path).origin.format)\n"
        "    sys.exit(path) if 'torch._dynamo' in sys.modules else None\n"
        "open_model('english')\n"
        "sys.exit('torch._dynamo' in sys.modules)"
    )

    assert found.returncode == 0, found.stderr
    assert found.stdout.split() == list(paths)


def test_help_loads_nothing_heavy_and_the_help_of_no_command_loads_torch() -> None:
    """One process for all of them: a module that one command loads stays there."""
    found = run(
        "import sys\n"
        "from elmo_serve.cli import main\n"
        "heavy = {'torch', 'h5py', 'fastapi', 'pydantic', 'numpy', 'rich'}\n"
        "def help_of(*command):\n"
        "    main([*command, '--help'], standalone_mode=False)\n"
        "    found = heavy & set(sys.modules)\n"
        "    sys.exit(f'{command}: {found}') if found else None\n"
        "help_of()\n"
        "heavy = {'torch', 'h5py', 'fastapi'}\n"
        "for name in [name for name, each in main.commands.items() if not each.hidden]:\n"
        "    help_of(name)\n"
    )

    assert found.returncode == 0, found.stderr
    assert "Pretrain a biLM" in found.stdout
    assert found.stdout.count("Usage: ") > 10
