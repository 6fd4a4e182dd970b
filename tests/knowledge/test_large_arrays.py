"""Arrays that are too large for a literal: files of the run, read when they are looked at."""

import shutil

import numpy
import pytest
from knowledge_models import NAMESPACE, Thing

from grafico.calculations import ArtifactRef
from grafico.errors import KnowledgeError
from grafico.knowledge import KnowledgeBase, RunKnowledge, describe, validate
from grafico.knowledge.arrays import MAX_INLINE_BYTES
from grafico.knowledge.files import NPY, ArtifactFolder, StoredArray, read_artifact

LARGE = numpy.arange(MAX_INLINE_BYTES // 8 + 1, dtype=">f8").reshape(1, -1)
SMALL = numpy.array([1 + 2j, 3])


def fetched(knowledge, iri):
    return KnowledgeBase(knowledge.folder).fetch(iri)


def files_of(run):
    return sorted(path for path in (run.folder / "artifacts").rglob("*") if path.is_file())


def test_a_large_array_is_a_file_named_by_its_digest_and_comes_back_to_the_bit(run, knowledge):
    thing = Thing(text="x", spectrum=LARGE, arrays=[SMALL, LARGE, SMALL])
    run.persist_now([thing])
    (file,) = files_of(run)
    assert file.stat().st_mode & 0o777 == 0o600
    assert run.path.stat().st_size < MAX_INLINE_BYTES
    back = fetched(knowledge, thing.iri)
    assert (back.spectrum.dtype.str, back.spectrum.shape) == (">f8", LARGE.shape)
    assert back.spectrum.tobytes() == LARGE.tobytes()
    assert [item.tobytes() for item in back.arrays] == [item.tobytes() for item in thing.arrays]


@pytest.mark.parametrize("dtype", ["<f4", ">c16", "|b1", "<U3", "<M8[ns]", "<f2", ">i2"])
def test_every_kind_of_number_survives_in_a_file(run, knowledge, dtype):
    width = numpy.dtype(dtype).itemsize
    array = numpy.zeros(MAX_INLINE_BYTES // width + 1, dtype)
    if dtype != "<U3":  # any bit pattern of the others is a value
        array.view(numpy.uint8)[:] = numpy.resize(numpy.arange(2 if dtype == "|b1" else 251, dtype="u1"), array.nbytes)
    thing = Thing(text="x", spectrum=numpy.asfortranarray(array))
    run.persist_now([thing])
    back = fetched(knowledge, thing.iri).spectrum
    assert (back.dtype.str, back.tobytes()) == (array.dtype.str, array.tobytes())


def test_a_file_is_read_when_it_is_looked_at_and_not_before(run, knowledge):
    thing = Thing(text="x", spectrum=LARGE)
    run.persist_now([thing])
    (file,) = files_of(run)
    data = file.read_bytes()
    file.unlink()
    back = fetched(knowledge, thing.iri)
    assert back.loaded
    assert back.text == "x"
    with pytest.raises(KnowledgeError, match="is not in any of the 2 folders") as caught:
        _ = back.spectrum
    assert "rebuild" in caught.value.hint
    # What nobody looked at is described as it was.
    assert describe([back]) == describe([thing], keep=ArtifactFolder(run.folder).keep)
    file.unlink()
    file.write_bytes(data[:-1] + b"!")
    with pytest.raises(KnowledgeError, match="does not match its name"):
        _ = back.spectrum
    file.write_bytes(data[:-1])
    with pytest.raises(KnowledgeError, match="is not in"):
        _ = back.spectrum
    file.write_bytes(data)
    assert back.spectrum is back.spectrum


def test_an_array_that_was_changed_is_described_anew(run, knowledge):
    thing = Thing(text="x", spectrum=LARGE)
    run.persist_now([thing])
    back = fetched(knowledge, thing.iri)
    back.spectrum[0, 0] = 7.0
    run.persist_now([back])
    assert len(files_of(run)) == 2
    assert fetched(knowledge, thing.iri).spectrum[0, 0] == 7.0
    other = fetched(knowledge, thing.iri)
    other.spectrum = SMALL
    assert other.spectrum.tobytes() == SMALL.tobytes()
    run.persist_now([other])
    assert f"<{NAMESPACE}spectrum>" in run.path.read_text()


def test_persisting_the_same_again_writes_no_file(run):
    thing = Thing(text="x", spectrum=LARGE)
    run.persist_now([thing])
    before = [(file, file.stat().st_mtime_ns) for file in files_of(run)]
    run.persist_now([thing])
    assert [(file, file.stat().st_mtime_ns) for file in files_of(run)] == before


def test_a_run_folder_that_moved_is_found_again_after_a_rebuild(run, knowledge, tmp_path):
    thing = Thing(text="x", spectrum=LARGE)
    run.persist_now([thing])
    moved = tmp_path / "elsewhere"
    shutil.move(run.folder, moved)
    knowledge.rebuild([moved])
    assert fetched(knowledge, thing.iri).spectrum.tobytes() == LARGE.tobytes()


def test_large_arrays_satisfy_the_shapes_and_one_place_too_many_does_not(run, knowledge):
    thing = Thing(text="x", spectrum=LARGE, arrays=[LARGE])
    run.persist_now([thing])
    assert validate(knowledge).violations == ()
    text = run.path.read_text()
    line = next(line for line in text.splitlines() if f"<{NAMESPACE}spectrum.file>" in line)
    run.path.write_text(text + line.replace("spectrum.file", "text.file").replace("text.file", "spectrum") + "\n")
    knowledge.load_run(run.path)
    assert any(v.property == f"{NAMESPACE}spectrum" for v in validate(knowledge).violations)


def test_nothing_is_unpickled_and_no_other_file_is_an_array(tmp_path):
    import io
    import pickle

    folder = ArtifactFolder(tmp_path)
    buffer = io.BytesIO()
    numpy.save(buffer, numpy.array([{}], dtype=object), allow_pickle=True)
    huge = (
        b"\x93NUMPY\x01\x00\x76\x00"
        + b"{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999,), }".ljust(117)
        + b"\n"
    )
    for data in (buffer.getvalue(), pickle.dumps([1]), b"", b"nonsense", huge):
        ref = folder.put(data, NPY)
        with pytest.raises(KnowledgeError, match="holds no NumPy array"):
            StoredArray(ref, lambda ref: read_artifact(ref, [tmp_path])).load()
    ref = folder.put(b"1", "application/octet-stream")
    with pytest.raises(KnowledgeError, match="is of type"):
        StoredArray(ref, lambda ref: read_artifact(ref, [tmp_path])).load()


def test_without_a_run_a_large_array_is_refused_and_says_why():
    with pytest.raises(KnowledgeError, match="too large") as caught:
        describe([Thing(text="x", spectrum=LARGE)])
    assert "run" in caught.value.hint


def test_a_large_array_that_is_persisted_without_a_run_is_a_file_of_the_store(knowledge):
    thing = Thing(text="x", spectrum=LARGE)
    knowledge.persist(thing)
    assert fetched(knowledge, thing.iri).spectrum.tobytes() == LARGE.tobytes()
    changed = fetched(knowledge, thing.iri)
    changed.text = "y"
    knowledge.persist(changed)
    knowledge.rebuild()
    back = fetched(knowledge, thing.iri)
    assert (back.text, back.spectrum.tobytes()) == ("y", LARGE.tobytes())


def test_the_file_of_an_artifact_is_read_through_the_knowledge_base(run, knowledge):
    ref = ArtifactFolder(run.folder).put(b"orbitals", "application/octet-stream")
    run.persist_now([Thing(text="x", file=ref)])
    assert knowledge.read_artifact(ref) == b"orbitals"
    with pytest.raises(KnowledgeError, match="is not in"):
        knowledge.read_artifact(ArtifactRef(digest="0" * 64, media_type=NPY, size=1))


def test_a_run_folder_that_cannot_be_written_says_so(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "artifacts").write_text("a file where the folder should be")
    with pytest.raises(KnowledgeError, match="cannot be written"):
        RunKnowledge(tmp_path / "run").persist_now([Thing(text="x", spectrum=LARGE)])
