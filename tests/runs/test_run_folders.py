"""Run folders: who may read them, how they are named and found, and that no name leads out of them."""

import json
import os
import stat
from collections.abc import Callable
from datetime import datetime, tzinfo
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grafico.errors import RunError, RunNotFound
from grafico.runs import Run, RunPaths, RunStatus, find_run, find_runs
from grafico.runs.paths import safe_lane

keys = st.text("abcXYZ019_.+-", min_size=1, max_size=12)
lanes = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9), keys), max_size=4).map(
    lambda parts: "/".join(f"{step}.{ordinal}:{key}" for step, ordinal, key in parts)
)


def test_a_run_keeps_its_job_as_given_and_as_resolved(tmp_path: Path) -> None:
    source = b"name: caf\xc3\xa9  # as typed\n"
    run = Run.create(tmp_path, "café / été", job_source=source, job={"name": "café"}, graph="g", graph_version="2")
    again = Run.open(run.paths.root)
    assert again.job_source == source
    assert again.job == {"name": "café"}
    assert (again.manifest.graph, again.manifest.graph_version) == ("g", "2")
    assert again.manifest.status is RunStatus.CREATED
    assert again.name.startswith("caf-t-")


def test_only_the_owner_can_look_into_a_run(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        run = Run.create(tmp_path / "a" / "runs", "r", job_source=b"", job={}, graph="g", graph_version="1")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700
    for path in [run.paths.root, *run.paths.root.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_the_manifest_is_rewritten_in_one_step(run: Run) -> None:
    run.update(status=RunStatus.RUNNING, counts={"lanes": 3})
    again = Run.open(run.paths.root)
    assert again.manifest.status is RunStatus.RUNNING
    assert again.manifest.counts == {"lanes": 3}
    assert not list(run.paths.root.glob(".*"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "is damaged"),
        (b"[]", "is damaged"),
        (b'{"format": 1}', "is damaged: run: Field required"),
        (b'{"format": 99, "grafico": "9.9"}', "has layout 99"),
    ],
)
def test_a_manifest_that_cannot_be_used_is_said_so(run: Run, content: bytes, message: str) -> None:
    run.paths.manifest.write_bytes(content)
    with pytest.raises(RunError, match=message):
        Run.open(run.paths.root)


def test_a_folder_that_is_no_run_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(RunNotFound, match=r"no manifest\.json"):
        Run.open(tmp_path)
    with pytest.raises(RunNotFound, match="no such folder"):
        Run.open(tmp_path / "nowhere")


def test_runs_are_found_by_path_name_start_and_short_id(new_run: Callable[[], Run]) -> None:
    one, two = new_run(), new_run()
    base = one.paths.root.parent
    assert {path.name for path in find_runs(base)} == {one.name, two.name}
    assert find_run(str(one.paths.root)) == one.paths.root
    assert find_run(two.name, base) == two.paths.root
    assert find_run(two.name.rpartition("-")[2], base) == two.paths.root
    assert find_run(one.name[:-1], base) == one.paths.root
    with pytest.raises(RunNotFound, match="matches 2 runs"):
        find_run("test-", base)
    with pytest.raises(RunNotFound, match="there are test-"):
        find_run("other", base)
    assert find_runs(base / "nowhere") == []


def test_a_base_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="the run folder could not be created"):
        Run.create(tmp_path / "file" / "runs", "r", job_source=b"", job={}, graph="g", graph_version="1")


def test_two_runs_of_one_second_never_share_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = iter(["aaaaaa", "aaaaaa", "bbbbbb", "aaaaaa", "bbbbbb", "cccccc", "dddddd"])

    class Frozen(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> "Frozen":
            return cls(2026, 1, 2, 3, 4, 5, tzinfo=tz)

    monkeypatch.setattr(
        "grafico.runs.run.secrets.token_hex", lambda size: next(tokens) if size == 3 else "0" * 2 * size
    )
    monkeypatch.setattr("grafico.runs.run.datetime", Frozen)
    names = [Run.create(tmp_path, "r", job_source=b"", job={}, graph="g", graph_version="1").name for _ in range(3)]
    assert [name[-6:] for name in names] == ["aaaaaa", "bbbbbb", "cccccc"]
    # One that another process is making just now is not touched.
    draft = tmp_path / ".r-20260102-030405-dddddd.new"
    draft.mkdir()
    tokens = iter(["dddddd", "eeeeee"])
    assert Run.create(tmp_path, "r", job_source=b"", job={}, graph="g", graph_version="1").name.endswith("eeeeee")
    assert draft.is_dir()


def test_a_run_may_be_given_its_folder_exactly_and_nobody_else_gets_it(tmp_path: Path) -> None:
    def create(folder: Path) -> Run:
        return Run.create("runs", "r", job_source=b"", job={}, graph="g", graph_version="1", folder=folder)

    run = create(tmp_path / "runs" / "mine")
    assert run.paths.root == tmp_path / "runs" / "mine"
    assert run.name == run.manifest.run == "mine"
    named = Run.create(tmp_path / "runs", "r", job_source=b"", job={}, graph="g", graph_version="1")
    for created, order in (("2001-01-01T00:00:00.000Z", ["mine", named.name]),
                           ("2999-01-01T00:00:00.000Z", [named.name, "mine"])):  # fmt: skip
        run.update(created=created)
        assert [path.name for path in find_runs(tmp_path / "runs")] == order
    with pytest.raises(RunError, match="is a run already"):
        create(run.paths.root)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(RunError, match="is there already, and it is no run"):
        create(tmp_path / "other")
    (tmp_path / "empty").mkdir()
    assert create(tmp_path / "empty").paths.manifest.is_file()
    assert not list(tmp_path.glob("**/.*.new"))


def test_a_job_that_is_no_json_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises((TypeError, ValueError)):
        Run.create(tmp_path, "r", job_source=b"", job={"x": float("nan")}, graph="g", graph_version="1")
    assert not list(tmp_path.iterdir())


@given(st.sets(lanes | st.text(max_size=300), min_size=2, max_size=8))
def test_every_lane_has_a_folder_of_its_own_inside_the_run(paths: set[str]) -> None:
    names = [safe_lane(lane) for lane in paths]
    assert len(set(names)) == len(paths)
    for name in names:
        assert "/" not in name
        assert "\0" not in name
        assert not name.startswith(".")
        assert len(name.encode()) <= 255


def test_lane_names_can_be_read() -> None:
    assert safe_lane("3.0:gas/1.0:conf-002") == "3.0=gas~1.0=conf-002"
    assert safe_lane("") == "@root"


@pytest.mark.parametrize("digest", ["", "../x", "a" * 63, "A" * 64, "a" * 64 + "\n", "/" * 64])
def test_what_is_no_digest_is_no_path(digest: str) -> None:
    paths = RunPaths("runs/x")
    with pytest.raises(RunError, match="64 hexadecimal digits"):
        paths.outcome(digest)
    with pytest.raises(RunError, match="64 hexadecimal digits"):
        paths.artifact(digest)


def test_the_frozen_job_is_plain_json(run: Run) -> None:
    assert json.loads(run.paths.job_json.read_text()) == {"name": "test"}
