"""Potentials by name: what is refused, where weights are looked for, and that nothing is ever downloaded."""

import hashlib
import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from grafico.calculations import CalculationError, FailureKind, WorkContext
from grafico.errors import LevelError, MissingExtra
from grafico.frameworks.potentials import (
    NAMES,
    batchable,
    check_potential,
    digest_of,
    find_weights,
    pin_potential,
    potentials_folder,
)
from grafico.frameworks.relaxing.engines import forget, load
from grafico.frameworks.relaxing.offline import without_network
from grafico.graphs import FolderArtifacts


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = tmp_path / "potentials"
    found.mkdir()
    monkeypatch.setenv("GRAFICO_POTENTIALS", str(found))
    return found


@pytest.fixture
def ctx(tmp_path: Path) -> WorkContext:
    return WorkContext(artifacts=FolderArtifacts(tmp_path), scratch=tmp_path)


@pytest.fixture
def asked() -> Iterator[tuple[str, list[str]]]:
    """A server that would give whatever is asked of it; yields its address and what was asked."""
    paths: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"weights")

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", paths
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("name", NAMES)
def test_names_are_known_in_any_case(name: str) -> None:
    assert check_potential(name.upper()).name == name


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("7net0", "7net-0"), ("chgnt", "chgnet"), ("mace-mp0", "mace-mp"), ("orb", "orb-v3"), ("matersim", "mattersim")],
)
def test_a_wrong_name_is_refused_with_what_may_have_been_meant(wrong: str, meant: str) -> None:
    with pytest.raises(LevelError) as refused:
        check_potential(wrong)
    assert wrong in refused.value.message
    assert meant in (refused.value.hint or "").partition(";")[0]


NONSENSE = [
    "",
    ":",
    "mace:",
    "mace:relative/file.model",
    "mcae:/a/file",
    "7net-mf-0/B3LYP",
    "7net-0/PBE",
    "mace-mp/PBE",
]


@pytest.mark.parametrize("wrong", [*NONSENSE, "7net-0#", "7net-0#abc", "mace:/a#NOTHEX00", "x" * 300])
def test_what_means_nothing_is_refused(wrong: str) -> None:
    with pytest.raises(LevelError):
        check_potential(wrong)


def test_a_functional_belongs_to_the_name_and_the_default_is_not_written() -> None:
    assert check_potential("7net-mf-0").modal == "PBE"
    assert check_potential("7NET-mf-0/r2scan").modal == "R2SCAN"
    assert check_potential("7net-mf-0/r2scan").name == "7net-mf-0/R2SCAN"
    assert check_potential("7net-mf-0/pbe") == check_potential("7net-mf-0")


def test_batches_are_offered_where_torch_sim_has_the_potential_and_the_optimizer() -> None:
    assert batchable("7net-0")
    assert batchable("mace:/weights/mine.model")
    assert not batchable("chgnet")
    assert not batchable("7net-0", "lbfgs")


@pytest.mark.parametrize("name", ["7net-0", "7net-mf-0", "7net-l3i5", "chgnet", "chgnet-r2scan"])
def test_shipped_weights_are_where_they_are_looked_for(name: str) -> None:
    pytest.importorskip("sevenn" if name.startswith("7net") else "chgnet")
    assert find_weights(check_potential(name)).stat().st_size > 1_000_000


@pytest.mark.parametrize("name", ["mace-mp", "mace-mof", "orb-v3", "mattersim"])
def test_weights_that_are_not_here_say_where_to_put_them(name: str, folder: Path) -> None:
    with pytest.raises(MissingExtra) as missing:
        find_weights(check_potential(name))
    assert str(folder) in missing.value.message
    hint = missing.value.hint or ""
    assert "GRAFICO_POTENTIALS" in hint
    assert "nothing is downloaded" in hint


def test_weights_are_found_by_name_and_a_second_file_of_that_name_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if its package were installed; the file is all that is looked for.
    monkeypatch.setattr("grafico.frameworks.potentials.missing_package", lambda potential: "")
    (folder / "mace-mof.model").write_bytes(b"weights")
    (folder / "mace-mofs.model").write_bytes(b"others")
    assert find_weights(check_potential("mace-mof")) == folder / "mace-mof.model"
    (folder / "mace-mof.pt").write_bytes(b"weights")
    with pytest.raises(MissingExtra, match="several"):
        find_weights(check_potential("mace-mof"))


def test_the_users_own_folder_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRAFICO_POTENTIALS", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", "/data/of/me")
    assert potentials_folder() == Path("/data/of/me/grafico/potentials")


def test_a_path_to_nothing_and_a_missing_package_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(LevelError, match="no weights at"):
        find_weights(check_potential(f"7net:{tmp_path / 'none.pth'}"))
    file = tmp_path / "some.model"
    file.write_bytes(b"weights")
    for kind, package in (("mace", "mace-torch"), ("orb", "orb-models"), ("mattersim", "mattersim")):
        potential = check_potential(f"{kind}:{file}")
        try:
            __import__(potential.engine.module)
        except ImportError:
            with pytest.raises(MissingExtra, match=package) as missing:
                find_weights(potential)
            assert missing.value.hint == f"pip install {package}"


def test_a_pin_names_the_content_and_other_weights_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("sevenn")
    file = tmp_path / "mine.pth"
    file.write_bytes(b"first")
    pinned = pin_potential(f"7net:{file}")
    assert pinned == f"7net:{file}#{hashlib.sha256(b'first').hexdigest()[:16]}"
    assert find_weights(check_potential(pinned)) == file
    file.write_bytes(b"second")
    assert digest_of(file) == hashlib.sha256(b"second").hexdigest()
    with pytest.raises(LevelError, match="SHA-256"):
        find_weights(check_potential(pinned))


def test_what_its_package_ships_needs_no_pin_and_what_is_elsewhere_gets_none(folder: Path) -> None:
    assert pin_potential("7NET-0") == "7net-0"
    assert pin_potential("mace-mof") == "mace-mof"


def test_a_request_is_checked_without_an_engine() -> None:
    code = (
        "import sys; from grafico.frameworks.potentials import check_potential, find_weights, pin_potential\n"
        "import grafico.frameworks.calculations.relax, grafico.frameworks.calculations.relax_batch\n"
        "check_potential('7net-0'); pin_potential('chgnet')\n"
        "print(sorted({'torch', 'sevenn', 'chgnet', 'ase', 'numpy', 'torch_sim'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout.strip() == "[]"


def test_no_library_reaches_the_network_while_it_loads(asked: tuple[str, list[str]]) -> None:
    import urllib.request

    address, paths = asked
    with without_network("loading a model"), pytest.raises(MissingExtra, match="loading a model"):
        urllib.request.urlopen(f"{address}/weights")
    assert paths == []
    with urllib.request.urlopen(f"{address}/after") as answer:
        assert answer.read() == b"weights"
    assert paths == ["/after"]


def test_other_threads_may_go_on_talking(asked: tuple[str, list[str]]) -> None:
    import urllib.request

    address, paths = asked
    with without_network("loading a model"):
        thread = threading.Thread(target=lambda: urllib.request.urlopen(f"{address}/heartbeat").close())
        thread.start()
        thread.join(30)
    assert paths == ["/heartbeat"]


def test_a_package_that_would_download_its_weights_is_stopped(
    asked: tuple[str, list[str]],
    tmp_path: Path,
    folder: Path,
    ctx: WorkContext,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Stands for any package that fetches what it does not find: it swallows errors, as they do, and tries a mirror."""
    pytest.importorskip("torch")
    address, paths = asked
    package = tmp_path / "site" / "mace"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "calculators.py").write_text(
        "import urllib.request\n"
        "class MACECalculator:\n"
        "    def __init__(self, **given):\n"
        "        for mirror in ('a', 'b'):\n"
        "            try:\n"
        f"                urllib.request.urlopen('{address}/' + mirror)\n"
        "            except OSError:\n"
        "                pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    (folder / "mace-mof.model").write_bytes(b"weights")
    with pytest.raises(MissingExtra, match="loading mace-mof tried to reach the network"):
        load("mace-mof", ctx)
    assert paths == []
    for name in [name for name in sys.modules if name == "mace" or name.startswith("mace.")]:
        monkeypatch.delitem(sys.modules, name)


def test_a_file_that_holds_no_weights_is_a_failure_that_names_it(tmp_path: Path, ctx: WorkContext) -> None:
    pytest.importorskip("sevenn")
    forget()
    for content in (b"", b"no weights at all", b"PK\x03\x04 torn archive"):
        file = tmp_path / "broken.pth"
        file.write_bytes(content)
        with pytest.raises(CalculationError, match=r"broken\.pth") as failed:
            load(f"7net:{file}", ctx)
        assert failed.value.kind is FailureKind.ENGINE_ERROR


def test_a_name_that_means_nothing_is_bad_input_of_the_calculation(ctx: WorkContext) -> None:
    with pytest.raises(CalculationError, match="7net-0") as failed:
        load("7net-O", ctx)
    assert failed.value.kind is FailureKind.BAD_INPUT
