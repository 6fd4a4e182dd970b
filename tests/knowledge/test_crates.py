"""Runs as RO-Crates: what the profiles demand, and back into an empty store with the same IRIs.

The demands are written down here from the published rules (RO-Crate 1.1, Process Run Crate 0.5, Workflow Run Crate 0.5,
Workflow RO-Crate 1.0); there is no validator that works without a network to be had.
"""

import hashlib
import io
import json
import re
import shutil
import stat
import zipfile

import pytest
from typer.testing import CliRunner

import grafico.chemistry.entities  # noqa: F401 - the classes of what the runs found
from grafico.cli.main import app
from grafico.errors import QueryError
from grafico.jobs.crate import write_crate
from grafico.knowledge import KnowledgeBase, validate
from grafico.knowledge.crate import METADATA, import_crate


@pytest.fixture(scope="module")
def crate(hydrogen_run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("crates") / "crate"
    write_crate(hydrogen_run.folder, folder, license_="https://spdx.org/licenses/CC-BY-4.0", author="Ada Lovelace")
    return folder


@pytest.fixture
def copy(crate, tmp_path):
    shutil.copytree(crate, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.fixture
def empty(tmp_path):
    return KnowledgeBase(tmp_path / "empty")


def entities(folder):
    graph = json.loads((folder / METADATA).read_text())["@graph"]
    return {entity["@id"]: entity for entity in graph}


def refs(value):
    return [one["@id"] for one in (value if isinstance(value, list) else [value])]


def kinds(entity):
    return set(entity["@type"]) if isinstance(entity["@type"], list) else {entity["@type"]}


def test_ro_crate_1_1_root_and_descriptor(crate):
    found = entities(crate)
    said = json.loads((crate / METADATA).read_text())
    assert said["@context"][0] == "https://w3id.org/ro/crate/1.1/context"
    descriptor, root = found[METADATA], found["./"]
    assert kinds(descriptor) == {"CreativeWork"}
    assert descriptor["about"] == {"@id": "./"}
    assert "https://w3id.org/ro/crate/1.1" in refs(descriptor["conformsTo"])
    assert kinds(root) == {"Dataset"}
    for name in ("name", "description", "datePublished", "license"):
        assert root[name], name
    assert refs(root["license"]) == ["https://spdx.org/licenses/CC-BY-4.0"]


def test_ro_crate_1_1_every_entity_is_flat_and_has_an_identifier_and_a_type(crate):
    for iri, entity in entities(crate).items():
        assert entity["@type"], iri
        for value in entity.values():
            for one in value if isinstance(value, list) else [value]:
                assert not isinstance(one, dict) or set(one) == {"@id"}, (iri, one)


def test_ro_crate_1_1_every_file_is_there_with_its_size_and_digest(crate):
    found = entities(crate)
    listed = set(refs(found["./"]["hasPart"]))
    on_disk = {path.relative_to(crate).as_posix() for path in crate.rglob("*") if path.is_file()} - {METADATA}
    assert {iri for iri, entity in found.items() if "File" in kinds(entity)} == listed == on_disk
    assert any(name.startswith("artifacts/") for name in listed)
    for name in listed:
        data = (crate / name).read_bytes()
        assert found[name]["contentSize"] == str(len(data))
        assert found[name]["sha256"] == hashlib.sha256(data).hexdigest()
        assert found[name]["encodingFormat"]


def test_workflow_ro_crate_1_0_main_workflow_and_its_language(crate):
    found = entities(crate)
    workflow = found[found["./"]["mainEntity"]["@id"]]
    assert kinds(workflow) == {"File", "SoftwareSourceCode", "ComputationalWorkflow"}
    language = found[workflow["programmingLanguage"]["@id"]]
    assert kinds(language) == {"ComputerLanguage"}
    assert workflow["name"]
    assert found["README.md"]["about"] == {"@id": "./"}
    assert found["README.md"]["encodingFormat"] == "text/markdown"


def test_process_and_workflow_run_crate_0_5_profiles_are_named(crate):
    found = entities(crate)
    profiles = set(refs(found["./"]["conformsTo"]))
    assert profiles >= {"https://w3id.org/ro/wfrun/process/0.5", "https://w3id.org/ro/wfrun/workflow/0.5"}
    assert all("CreativeWork" in kinds(found[iri]) for iri in profiles)


def test_process_run_crate_0_5_the_action_has_instrument_times_agent_and_status(crate, hydrogen_run):
    found = entities(crate)
    action = found[hydrogen_run.iri]
    assert kinds(action) == {"CreateAction"}
    assert action["instrument"] == found["./"]["mainEntity"]
    assert action["actionStatus"] == "http://schema.org/CompletedActionStatus"
    assert action["startTime"] < action["endTime"]
    assert kinds(found[action["agent"]["@id"]]) == {"Person"}
    assert refs(found["./"]["mentions"]) == [hydrogen_run.iri]
    assert {"results/result.json", "knowledge.nq"} <= set(refs(action["result"]))
    assert "job.json" in refs(action["object"])
    software = [found[iri] for iri in refs(found["job.yaml"]["softwareRequirements"])]
    assert {"grafico", "pyscf"} <= {one["name"] for one in software}
    assert all(one["softwareVersion"] and kinds(one) == {"SoftwareApplication"} for one in software)


def test_workflow_run_crate_0_5_parameters_lead_to_the_values_that_were_given(crate, hydrogen_run):
    found = entities(crate)
    parameters = [found[iri] for iri in refs(found["job.yaml"]["input"])]
    assert {"molecule", "level", "tasks"} <= {parameter["name"] for parameter in parameters}
    for parameter in parameters:
        assert kinds(parameter) == {"FormalParameter"}
        assert parameter["additionalType"]
        value = found[parameter["workExample"]["@id"]]
        assert kinds(value) == {"PropertyValue"}
        assert value["exampleOfWork"] == {"@id": parameter["@id"]}
        assert value["@id"] in refs(found[hydrogen_run.iri]["object"])


def test_rocrate_reads_it(crate):
    from rocrate.rocrate import ROCrate

    read = ROCrate(crate)
    assert read.mainEntity.id == "job.yaml"
    assert len(read.data_entities) == len(entities(crate)["./"]["hasPart"])


@pytest.mark.parametrize("packed", [False, True])
def test_a_crate_comes_into_an_empty_store_with_the_same_iris(hydrogen_run, empty, tmp_path, packed):
    out = tmp_path / ("run.zip" if packed else "run")
    written = write_crate(hydrogen_run.folder, out)
    done = import_crate(empty, out)
    assert done.graphs == (written.run,) == (hydrogen_run.iri,)
    assert done.artifacts > 0
    straight = KnowledgeBase(tmp_path / "straight")
    straight.load_run(hydrogen_run.folder / "knowledge.nq")
    assert empty.dump() == straight.dump()
    assert import_crate(empty, out).added == 0
    assert empty.rebuild().problems == ()
    assert empty.dump() == straight.dump()
    assert validate(empty).violations == ()
    # The files came along: what a run folder held is read without it.
    (row,) = empty.query("SELECT DISTINCT ?c { ?c a chem:DFTCalculation }").values()
    calculation = empty.fetch(row["c"])
    data = empty.read_artifact(calculation.wavefunction)
    assert hashlib.sha256(data).hexdigest() == calculation.wavefunction.digest


def test_the_command_line_packs_a_run_and_unpacks_it(hydrogen_run, tmp_path):
    def kb(*arguments):
        return CliRunner().invoke(app, ["kb", *map(str, arguments)])

    runs = hydrogen_run.folder.parent
    told = kb("export", "--run", "last", "--runs-dir", runs, "-o", tmp_path / "a.zip", "--json")
    assert told.exit_code == 0, told.stderr
    assert json.loads(told.stdout)["run"] == hydrogen_run.iri
    shown = kb("export", "--run", "hydrogen", "--runs-dir", runs, "--format", "ro-crate", "-o", tmp_path / "b")
    assert "no license is granted" in shown.stderr
    again = kb("export", "--run", "hydrogen", "--runs-dir", runs, "--format", "ro-crate", "-o", tmp_path / "b")
    assert again.exit_code == 2
    assert "exists already" in again.stderr
    both = kb("import", tmp_path / "a.zip", tmp_path / "b", "--store", tmp_path / "kb", "--json")
    assert both.exit_code == 0, both.stderr
    assert [one["added"] > 0 for one in json.loads(both.stdout)["imported"]] == [True, False]


def test_a_run_that_persisted_nothing_makes_no_crate(hydrogen_run, tmp_path):
    shutil.copytree(hydrogen_run.folder, tmp_path / "bare")
    (tmp_path / "bare" / "knowledge.nq").unlink()
    with pytest.raises(QueryError, match="has persisted nothing"):
        write_crate(tmp_path / "bare", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_lost_artifact_is_left_out_and_told(hydrogen_run, empty, tmp_path):
    shutil.copytree(hydrogen_run.folder, tmp_path / "lossy")
    lost = next(path for path in sorted((tmp_path / "lossy" / "artifacts").rglob("*")) if path.is_file())
    lost.unlink()
    written = write_crate(tmp_path / "lossy", tmp_path / "out")
    gone = [name for name in written.missing if name.endswith(lost.name)]
    assert len(gone) == len(written.missing) <= 1
    assert not any(lost.name in iri for iri in entities(tmp_path / "out"))
    assert import_crate(empty, tmp_path / "out").triples > 100


def rewrite(folder, change):
    said = json.loads((folder / METADATA).read_text())
    change({entity["@id"]: entity for entity in said["@graph"]}, said)
    (folder / METADATA).write_text(json.dumps(said))


def climb(found, said):
    found["knowledge.nq"]["@id"] = "../outside.nq"


def climb_encoded(found, said):
    found["knowledge.nq"]["@id"] = "%2e%2e/outside.nq"


def absolute(found, said):
    found["knowledge.nq"]["@id"] = "/etc/passwd"


def other_digest(found, said):
    found["knowledge.nq"]["sha256"] = "0" * 64


def other_size(found, said):
    found["knowledge.nq"]["contentSize"] = "1"


def no_version(found, said):
    del found[METADATA]["conformsTo"]


def another_form(found, said):
    found[METADATA]["conformsTo"] = "https://example.org/other"


def odd_size(found, said):
    found["knowledge.nq"] |= {"contentSize": "²", "sha256": "0"}


def endless_size(found, said):
    found["knowledge.nq"] |= {"contentSize": "9" * 5000, "sha256": "0"}


def endless_name(found, said):
    said["@graph"].append({"@id": "a" * 5000 + ".ttl", "@type": "File"})


def no_name(found, said):
    said["@graph"].append({"@id": "\ud800.ttl", "@type": "File"})


def no_rdf(found, said):
    said["@graph"].remove(found["knowledge.nq"])


def no_graph(found, said):
    del said["@graph"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (climb, "leads out of the crate"),
        (climb_encoded, "leads out of the crate"),
        (absolute, "leads out of the crate"),
        (other_digest, "its SHA-256 is another"),
        (other_size, "its metadata say 1"),
        (no_version, "conforms to no version"),
        (another_form, "conforms to no version"),
        (odd_size, "its SHA-256 is another"),
        (endless_size, "its SHA-256 is another"),
        (endless_name, "can be no file"),
        (no_name, "can be no file"),
        (no_rdf, "holds no RDF"),
        (no_graph, "does not describe an RO-Crate"),
    ],
)
def test_a_crate_that_is_not_what_it_says_is_refused(copy, empty, change, message):
    (copy.parent / "outside.nq").write_text("<urn:a:b> <urn:b:c> <urn:c:d> <urn:d:e> .\n")
    rewrite(copy, change)
    with pytest.raises(QueryError, match=message):
        import_crate(empty, copy)
    assert empty.dump() == ""
    assert not (empty.folder / "imports").exists() or not list((empty.folder / "imports").iterdir())


def test_links_do_not_lead_out_of_a_crate(copy, empty, tmp_path):
    (tmp_path / "secret.nq").write_bytes((copy / "knowledge.nq").read_bytes())
    (copy / "knowledge.nq").unlink()
    (copy / "knowledge.nq").symlink_to(tmp_path / "secret.nq")
    with pytest.raises(QueryError, match="leads out of the crate"):
        import_crate(empty, copy)


def test_a_circle_of_links_is_no_file(copy, empty):
    (copy / "knowledge.nq").unlink()
    (copy / "knowledge.nq").symlink_to("knowledge.nq")
    with pytest.raises(QueryError, match=r"can be no file|not there"):
        import_crate(empty, copy)


@pytest.mark.parametrize("size", ["²", "9" * 5000, "1" + "0" * 17])
def test_sizes_that_knowledge_tells_are_not_believed(copy, empty, size):
    text = re.sub(r'(core#size> )"\d+"\S*', rf'\1"{size}"', (copy / "knowledge.nq").read_text())
    (copy / "knowledge.nq").write_text(text)
    rewrite(copy, lambda found, said: [found["knowledge.nq"].pop(name) for name in ("contentSize", "sha256")])
    if size.isascii() and len(size) <= 18:
        with pytest.raises(QueryError, match="its knowledge says"):
            import_crate(empty, copy)
    else:
        assert import_crate(empty, copy).artifacts == 0


def test_all_rdf_of_a_crate_together_has_a_limit(copy, empty, monkeypatch):
    from grafico.knowledge import crate

    size = (copy / "knowledge.nq").stat().st_size
    (copy / "more.nq").write_bytes((copy / "knowledge.nq").read_bytes())
    rewrite(copy, lambda found, said: said["@graph"].append({"@id": "more.nq", "@type": "File"}))
    monkeypatch.setattr(crate, "MAX_IMPORT_BYTES", size + 10)
    with pytest.raises(QueryError, match="has more than 10 bytes"):
        import_crate(empty, copy)


def test_an_artifact_that_was_changed_is_refused(copy, empty):
    file = next(path for path in sorted((copy / "artifacts").rglob("*")) if path.is_file())
    file.write_bytes(bytes(file.stat().st_size))
    with pytest.raises(QueryError, match="is not what its name says"):
        import_crate(empty, copy)
    assert empty.dump() == ""
    assert not list((empty.folder / "imports").iterdir())


def packed(folder, path, *, replace=(), link=None, extra=()):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            name = file.relative_to(folder).as_posix()
            if file.is_file() and name not in dict(replace):
                archive.write(file, name)
        for name, data in (*replace, *extra):
            info = zipfile.ZipInfo(name)
            if name == link:
                info.external_attr = (stat.S_IFLNK | 0o777) << 16
            archive.writestr(info, data, zipfile.ZIP_DEFLATED)
    return path


def test_zip_files_that_are_traps_are_refused_or_harmless(copy, empty, tmp_path):
    bomb = packed(copy, tmp_path / "bomb.zip", replace=[(METADATA, b" " * 80_000_000)])
    dense = packed(copy, tmp_path / "dense.zip", replace=[("knowledge.nq", b"#" * 140_000_000)])
    link = packed(copy, tmp_path / "link.zip", replace=[("knowledge.nq", b"/etc/passwd")], link="knowledge.nq")
    torn = tmp_path / "torn.zip"
    whole = packed(copy, tmp_path / "whole.zip").read_bytes()
    torn.write_bytes(whole[: len(whole) // 2])
    flipped = tmp_path / "flipped.zip"
    flipped.write_bytes(whole[:3000] + bytes(200) + whole[3200:])
    bare = tmp_path / "bare.zip"
    with zipfile.ZipFile(bare, "w") as archive:
        archive.writestr("readme.txt", "hello")
    nothing = tmp_path / "nothing.zip"
    nothing.write_bytes(b"")
    for path, message in [
        (bomb, "more than"),
        (dense, "times its size"),
        (link, "is a link"),
        (torn, "no zip file"),
        (bare, "no RO-Crate"),
        (nothing, "no zip file"),
        (tmp_path / "none.zip", "does not exist"),
    ]:
        with pytest.raises(QueryError, match=message):
            import_crate(empty, path)
    assert empty.dump() == ""
    # What the metadata do not name is not even looked at.
    slip = packed(copy, tmp_path / "slip.zip", extra=[("../../escaped.txt", b"out"), ("/tmp/escaped.txt", b"out")])
    assert import_crate(empty, slip).artifacts > 0
    assert not (tmp_path.parent / "escaped.txt").exists()
    assert not (tmp_path / "escaped.txt").exists()


def test_any_bytes_are_read_as_a_crate_or_refused_by_name(empty, tmp_path):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(METADATA, "[" * 100_000)
    (tmp_path / "deep.zip").write_bytes(buffer.getvalue())
    with pytest.raises(QueryError, match="does not describe"):
        import_crate(empty, tmp_path / "deep.zip")
