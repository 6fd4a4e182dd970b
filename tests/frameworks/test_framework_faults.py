"""What goes wrong in a frameworks job, and what a user, a table and the knowledge base are told of it."""

import json
from pathlib import Path

import pytest
from framework_walks import Base, Walked
from pydantic import ValidationError
from typer.testing import CliRunner

from grafico.calculations import Failure, FailureKind
from grafico.cli.main import app
from grafico.frameworks.download import Downloaded, FoundStructure
from grafico.frameworks.parts import BuildingBlock, Combination
from grafico.frameworks.request import FrameworkRequest
from grafico.frameworks.sources import each_once, entities, read_blocks
from grafico.frameworks.state import Candidate
from grafico.knowledge import KnowledgeBase, using_store

SMALL = {"topology": "pcu", "node": "N16", "linker": "E44"}


def combination(topology: str, node: str, linker: str) -> Combination:
    told = read_blocks([node, linker])
    blocks = {name: BuildingBlock.model_validate(block) for name, block in told.items()}
    return Combination(topology=topology, metal_node=blocks[node], linker=blocks[linker])


def test_files_that_cannot_be_read_are_failed_lanes_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRAFICO_KB", str(tmp_path / "kb"))
    built = Walked(build=SMALL, tasks=["build"])
    (tmp_path / "good.cif").write_bytes(built.recorder.results["cif/pcu_N16_E44-built.cif"])
    (tmp_path / "empty.cif").write_text("")
    (tmp_path / "job.yaml").write_text(
        "name: files\ngraph: framework-design\ninput:\n  files: [good.cif, empty.cif]\n  tasks: analyze\n"
        "  analysis: {samples: 50, volume_samples: 100}\n"
    )
    found = CliRunner().invoke(app, ["run", "job.yaml", "--json"], catch_exceptions=False)
    assert found.exit_code == 3, found.output  # finished, with failed lanes
    told = json.loads(found.stdout)
    (lane,) = told["failed_lanes"]
    assert lane.endswith("empty")
    assert "is empty" in told["failed_lanes"][lane]["message"]
    # Tried again, it fails again, and what was done stays done.
    again = CliRunner().invoke(app, ["resume", "last", "--json"], catch_exceptions=False)
    assert again.exit_code == 3, again.output
    assert json.loads(again.stdout)["result"]["rows"] == told["result"]["rows"]


def test_refcodes_that_a_folder_lacks_are_failures_beside_those_that_it_has(tmp_path: Path) -> None:
    built = Walked(build=SMALL, tasks=["build"])
    (tmp_path / "mine.cif").write_bytes(built.recorder.results["cif/pcu_N16_E44-built.cif"])
    walked = Walked(refcodes=["yours", "mine", "MINE"], dataset=str(tmp_path), tasks="analyze")
    assert [(row.name, list(row.failures)) for row in walked.result.rows] == [("yours", ["download"]), ("mine", [])]
    assert any("yours" in record.position.lane for record in walked.recorder.records)


def test_one_entry_of_a_database_is_one_however_it_is_spelt() -> None:
    def found(asked: str, entry: str) -> FoundStructure:
        return FoundStructure(refcode=asked, name=entry, source="2019-ASR", cif="data_x", digest="0")

    spelt = {"ixejig": "IXEJIG_clean", "IXEJIG": "IXEJIG_clean", "Vegbug_clean": "VEGBUG_clean"}
    missing = Failure(kind=FailureKind.BAD_INPUT, message="no such structure")
    got = Downloaded(found={asked: found(asked, entry) for asked, entry in spelt.items()}, failed={"zzz": missing})
    told = [
        (name, what.name if isinstance(what, FoundStructure) else None)
        for name, what in each_once([*spelt, "zzz"], got)
    ]
    assert told == [("IXEJIG", "IXEJIG_clean"), ("VEGBUG_clean", "VEGBUG_clean"), ("zzz", None)]


def test_the_knowledge_base_knows_an_entry_by_its_own_name() -> None:
    structure = Walked(build=SMALL, tasks=["build"]).state.candidates["pcu_N16_E44"].structure
    references = set()
    for name in ("IXEJIG", "IXEJIG_clean"):
        candidate = Candidate(
            name=name, origin="experimental", reference="IXEJIG_clean", source="CoRE MOF 2019-ASR", found=structure
        )
        (framework,) = [made for made in entities({name: candidate}, None) if type(made).__name__ == "ExperimentalMOF"]
        references.add(framework.iri)
    assert len(references) == 1


FAILED = {
    "refused": (Failure(kind=FailureKind.REFUSED, message="its RMSD is 0.6"), True),
    "bad input": (Failure(kind=FailureKind.BAD_INPUT, message="wants 6 docking points"), True),
    "PORMAKE cannot": (
        Failure(kind=FailureKind.ENGINE_ERROR, message="PORMAKE cannot", details={"combination": "x"}),
        True,
    ),
    "not installed": (Failure(kind=FailureKind.ENGINE_ERROR, message="pormake is not installed"), False),
    "lost": (Failure(kind=FailureKind.WORKER_LOST, message="the worker was lost"), False),
    "killed": (Failure(kind=FailureKind.CRASH, message="signal 9"), False),
    "not tried": (None, False),
}


@pytest.mark.parametrize("name", FAILED)
def test_only_what_cannot_be_built_is_never_proposed_again(name: str) -> None:
    failure, known = FAILED[name]
    candidate = Candidate(name="c", origin="built", combination=combination("pcu", "N16", "E44"))
    if failure is not None:
        candidate.failures["build"] = failure
    made = [item for item in entities({"c": candidate}, None) if type(item).__name__ == "ConstructedMOF"]
    assert len(made) == known
    if known:
        assert failure is not None
        assert made[0].failure == f"{failure.kind}: {failure.message}"


def test_a_search_whose_proposals_are_all_refused_tells_so_and_proposes_others_next(tmp_path: Path) -> None:
    store = KnowledgeBase(tmp_path / "kb")
    first = Base()
    Walked(build=[SMALL, {**SMALL, "node": "N33", "linker": "E19"}], tasks=["build", "analyze"], persist=first)
    store.persist(*first.kept)
    wanted = {"search": {"limit": 1}, "tasks": ["build", "analyze"]}
    with using_store(tmp_path / "kb"):
        second = Base()
        refused = Walked(**wanted, max_rmsd=1e-12, persist=second).result
        store.persist(*second.kept)
        next_time = Walked(**wanted).result
    assert [row.failure.kind for row in refused.rows if row.failure] == [FailureKind.REFUSED]
    assert {row.name for row in (*refused.rows, *next_time.rows)} == {"pcu_N16_E19", "pcu_N33_E44"}


def test_three_long_lists_are_counted_and_not_listed() -> None:
    names = [f"X{number}" for number in range(5_000)]
    with pytest.raises(ValidationError, match="build names 125000000000 frameworks; at most 10000"):
        FrameworkRequest.model_validate({"build": {"topology": names, "node": names, "linker": names}})
    # The same name twice is the same framework.
    blocks = {"topology": ["pcu"] * 300, "node": ["N16"] * 300, "linker": ["E14"] * 300}
    assert FrameworkRequest.model_validate({"build": blocks}).combinations == (("pcu", "N16", "E14"),)


def test_the_lane_that_a_report_says_to_look_at_can_be_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRAFICO_KB", str(tmp_path / "kb"))
    (tmp_path / "job.yaml").write_text(
        "name: twice\ngraph: framework-design\ninput:\n  build: {topology: pcu, node: N16, linker: E44}\n"
        "  tasks: [build, analyze]\n  analysis: {timeout_s: 0.1, samples: 20000, volume_samples: 1000000}\n"
    )
    found = CliRunner().invoke(app, ["run", "job.yaml"], catch_exceptions=False)
    assert found.exit_code == 4, found.output
    (line,) = [line for line in found.output.splitlines() if line.startswith("why: grafico ")]
    # The framework has a lane of its own for building too, so its name alone would not do.
    told = CliRunner().invoke(app, line.partition("   ")[0].split()[2:], catch_exceptions=False)
    assert told.exit_code == 0, told.output
    assert "timeout" in told.output
