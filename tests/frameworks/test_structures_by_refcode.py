"""Structures by refcode, from CoRE MOF as core-mof ships it and from folders of CIF files.

Values of the table: CoRE MOF 2019-ASR, for VEGBUG_clean and EDUSIF_clean (Y. G. Chung et al., J. Chem. Eng. Data 64 (2019)
5985).
"""

import hashlib
from pathlib import Path

import pytest
from cif_support import cif_of, core_mof, cut

from grafico.atoms import read_cif
from grafico.calculations import FailureKind, WorkContext
from grafico.errors import BadInput
from grafico.frameworks.calculations.download import DownloadInput, download
from grafico.frameworks.download import DATASETS, find_entry, find_structures, folder_structures
from grafico.graphs import FolderArtifacts


def test_refcodes_are_found_with_their_text_and_what_is_published() -> None:
    found = core_mof().found["VEGBUG"]
    assert (found.name, found.source, found.note) == ("VEGBUG_clean", "2019-ASR", "")
    assert len(read_cif(found.cif)) == 540
    assert found.digest == hashlib.sha256(found.cif.encode()).hexdigest()
    assert found.published is not None
    assert (found.published.lcd, found.published.pld) == (26.2956, 9.06734)
    assert found.published.area_m2_g == 3098.71
    assert found.published.metals == ("Zr",)
    assert found.published.open_metal_sites is True


def test_density_of_the_table_is_that_of_the_crystal() -> None:
    # MOF-5 has 0.59 g/cm³ (H. Li et al., Nature 402 (1999) 276). The table's header calls the column cm3_g.
    published = core_mof().found["EDUSIF"].published
    assert published is not None
    assert published.density_g_cm3 == pytest.approx(0.59, abs=0.01)
    assert published.area_m2_cm3 == pytest.approx((published.area_m2_g or 0.0) * 0.5933, rel=1e-3)


def test_a_bare_refcode_takes_the_usual_entry_and_tells_the_others() -> None:
    found = core_mof().found
    assert found["XICNOO"].name == "XICNOO_clean"
    assert "XICNOO01_clean" in found["XICNOO"].note
    assert "XICNOO02_clean" in found["XICNOO"].note
    # Another determination is another structure.
    assert found["XICNOO01"].name == "XICNOO01_clean"
    assert found["XICNOO01"].digest != found["XICNOO"].digest


@pytest.mark.parametrize("name", ["ixejig", " IXEJIG ", "IXEJIG_clean", "ixejig_CLEAN.cif"])
def test_case_and_ending_do_not_matter(name: str) -> None:
    assert find_entry(name)[0] == "IXEJIG_clean"


def test_in_the_data_set_with_bound_solvent_the_usual_entry_is_called_otherwise() -> None:
    assert find_entry("EDUSIF", "2019-FSR")[0] == "EDUSIF_freeONLY"


def test_an_unknown_refcode_fails_alone_and_names_those_that_are_like_it() -> None:
    failure = core_mof().failed["ixejih"]
    assert failure.kind is FailureKind.BAD_INPUT
    assert "IXEJIG" in failure.message
    assert set(core_mof().failed) == {"ixejih"}


def test_a_refcode_of_another_data_set_is_told_where_it_is() -> None:
    with pytest.raises(BadInput) as caught:
        find_entry("IXEJIG", "2014")
    assert "2019-ASR" in (caught.value.hint or "")


@pytest.mark.parametrize("name", ["", "   ", ".cif", "_clean"])
def test_no_name_is_no_refcode(name: str) -> None:
    with pytest.raises(BadInput):
        find_entry(name)


def test_an_unknown_data_set_names_those_there_are() -> None:
    with pytest.raises(BadInput) as caught:
        find_structures(["IXEJIG"], "2031")
    assert all(name in (caught.value.hint or "") for name in DATASETS)


def test_the_calculation_finds_what_is_there_and_fails_what_is_not(tmp_path: Path) -> None:
    ctx = WorkContext(artifacts=FolderArtifacts(tmp_path), scratch=tmp_path)
    found = download.function(DownloadInput(refcodes=("XICNOO02", "NOSUCHMOF"), dataset="2019-FSR"), ctx)
    assert found.found["XICNOO02"].name == "XICNOO02_freeONLY"
    assert found.found["XICNOO02"].source == "2019-FSR"
    assert list(found.failed) == ["NOSUCHMOF"]
    assert "core-mof" in ctx.versions


def test_a_folder_of_cif_files_is_searched_by_name(tmp_path: Path) -> None:
    (tmp_path / "EDUSIF_clean.cif").write_text(cif_of("EDUSIF"))
    (tmp_path / "Mine.CIF").write_text(cif_of("XICNOO"))
    (tmp_path / "notes.txt").write_text("not a structure")
    (tmp_path / "broken.cif").write_bytes(b"\xff\xfe\x00data_x")
    found = folder_structures(["edusif", "mine", "broken", "notes", "EDUSIF_"], tmp_path)
    assert found.found["edusif"].name == "EDUSIF_clean"
    assert found.found["edusif"].cif == cif_of("EDUSIF")
    assert found.found["edusif"].published is None
    assert found.found["mine"].name == "Mine"
    # What is no text is found, and refused when it is read.
    assert "\ufffd" in found.found["broken"].cif
    assert set(found.failed) == {"notes", "EDUSIF_"}
    assert cut(found.found["edusif"].cif).topology == "pcu"


def test_two_files_that_a_name_could_mean_are_told(tmp_path: Path) -> None:
    for name in ("EDUSIF", "EDUSIF_charged", "EDUSIF01_clean"):
        (tmp_path / f"{name}.cif").write_text("data_x\n")
    found = folder_structures(["EDUSIF"], tmp_path).found["EDUSIF"]
    assert found.name == "EDUSIF"
    assert "EDUSIF_charged" in found.note
    assert "EDUSIF01_clean" in found.note


def test_a_folder_that_is_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="neither a folder nor a data set"):
        folder_structures(["EDUSIF"], tmp_path / "nowhere")
    assert "no CIF files" in folder_structures(["EDUSIF"], tmp_path).failed["EDUSIF"].message
