"""Energies and properties at given geometries: reference values, and direct PySCF calls."""

import pytest
from qc_support import structure_of

from grafico.chemistry.calculations.analysis import AnalysisInput, analysis
from grafico.chemistry.calculations.single_point import SinglePointInput, single_point
from grafico.chemistry.request import Level, Solvent

MOLECULES = ("water", "formaldehyde", "methyl_radical")


def test_a_log_tells_of_the_molecule_and_not_of_this_program(water, work, capsys):
    single_point.function(SinglePointInput(atoms=water, level=Level(method="hf", basis="sto-3g")), work())
    said = capsys.readouterr().out
    assert said.startswith("System: ")
    assert "PySCF version" in said
    assert "num. electrons = 10" in said
    assert "converged SCF energy" in said
    assert "input file" not in said


@pytest.mark.parametrize("name", MOLECULES)
@pytest.mark.parametrize("method", ["hf", "b3lyp", "pbe0"])
def test_energies_agree_with_the_references(name, method, references, work):
    found = single_point.function(
        SinglePointInput(atoms=structure_of(references[name]), level=Level(method=method)), work()
    )
    assert found.electronic.converged
    assert found.electronic.energy == pytest.approx(references[name][method], abs=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("name", MOLECULES)
def test_density_fitted_and_solvated_energies_agree_with_the_references(name, references, work):
    atoms = structure_of(references[name])
    fitted = single_point.function(SinglePointInput(atoms=atoms, level=Level(density_fit=True)), work())
    assert fitted.electronic.energy == pytest.approx(references[name]["b3lyp_density_fit"], abs=1e-6)
    solvated = single_point.function(SinglePointInput(atoms=atoms, level=Level(solvent=Solvent(name="Water"))), work())
    assert solvated.electronic.energy == pytest.approx(references[name]["b3lyp_smd_water"], abs=1e-5)


@pytest.mark.parametrize("name", MOLECULES)
def test_properties_agree_with_the_references(name, references, work):
    reference = references[name]
    found = single_point.function(SinglePointInput(atoms=structure_of(reference), level=Level(), gradient=True), work())
    electronic = found.electronic
    assert electronic.dipole == pytest.approx(reference["dipole_debye"], abs=1e-3)
    assert electronic.mulliken == pytest.approx(reference["mulliken"], abs=5e-4)
    assert found.gradient_norm == pytest.approx(reference["gradient_norm"], abs=1e-5)
    if reference["homo_lumo_ev"]:
        frontier = [electronic.orbitals.homo_ev, electronic.orbitals.lumo_ev]
        assert frontier == pytest.approx(reference["homo_lumo_ev"], abs=1e-3)
        assert electronic.gap_ev == pytest.approx(frontier[1] - frontier[0])
        assert electronic.beta_orbitals is None
    else:
        assert electronic.s_squared == pytest.approx(reference["s_squared"], abs=1e-4)
        assert electronic.beta_orbitals is not None


def direct(atoms, *, xc=None, restricted=True, prepare=lambda mf: mf, **attributes):
    """Return the energy of a hand-written PySCF calculation."""
    from pyscf import dft, gto, scf

    mol = gto.M(
        atom=list(zip(atoms.symbols, atoms.positions, strict=True)),
        basis="sto-3g",
        charge=atoms.charge,
        spin=atoms.multiplicity - 1,
        verbose=0,
    )
    if xc is None:
        mf = scf.RHF(mol) if restricted else scf.UHF(mol)
    else:
        mf = dft.RKS(mol, xc=xc) if restricted else dft.UKS(mol, xc=xc)
    for name, value in attributes.items():
        setattr(mf, name, value)
    return prepare(mf).kernel()


CASES = {
    "b3lyp-d3bj": {"xc": "b3lyp", "disp": "d3bj"},
    "pbe0-d4": {"xc": "pbe0", "disp": "d4"},
    # What dftd4 fits for this name: the functional of wB97X-V without VV10, and D4 in its place.
    "wb97x-d4": {"xc": "wb97x_v", "nlc": False, "disp": "d4:wb97x"},
    "wb97m-d4": {"xc": "wb97m_v", "nlc": False, "disp": "d4:wb97m"},
    "m06-2x": {"xc": "m06-2x"},
    "hf-d4": {"disp": "d4"},
}


@pytest.mark.parametrize("method", CASES)
def test_a_method_name_means_what_its_authors_mean(method, water, work):
    found = single_point.function(SinglePointInput(atoms=water, level=Level(method=method, basis="sto-3g")), work())
    assert found.electronic.energy == pytest.approx(direct(water, **CASES[method]), abs=1e-8)
    if "-d" in method:
        assert found.electronic.dispersion_energy < 0


def test_wb97x_d3_is_the_refitted_functional_with_its_own_zero_damping(water, work):
    # Lin 2013, Table I: short-range exchange 0.195728, range separation 0.25.
    from pyscf.dft import libxc

    omega, alpha, beta = libxc.rsh_coeff("399")
    assert (omega, round(alpha + beta, 6)) == (0.25, 0.195728)
    found = single_point.function(SinglePointInput(atoms=water, level=Level(method="wb97x-d3", basis="sto-3g")), work())
    by_hand = direct(water, xc="399", disp="d3zero:wb97x")
    assert found.electronic.energy == pytest.approx(by_hand, abs=1e-8)


@pytest.mark.parametrize("model", ["c-pcm", "ddcosmo"])
def test_other_solvent_models_agree_with_direct_calls(model, water, work):
    def prepare(mf):
        if model == "ddcosmo":
            mf = mf.ddCOSMO()
        else:
            mf = mf.PCM()
            mf.with_solvent.method = "C-PCM"
        mf.with_solvent.eps = 1.9113
        return mf

    level = Level(method="hf", basis="sto-3g", solvent=Solvent(model=model, name="n-heptane"))
    found = single_point.function(SinglePointInput(atoms=water, level=level), work())
    assert found.electronic.energy == pytest.approx(direct(water, prepare=prepare), abs=1e-8)


def test_an_open_shell_may_be_restricted(references, work):
    from pyscf import gto, scf

    atoms = structure_of(references["methyl_radical"])
    level = Level(method="hf", restricted=True)
    found = single_point.function(SinglePointInput(atoms=atoms, level=level), work()).electronic
    mol = gto.M(atom=list(zip(atoms.symbols, atoms.positions, strict=True)), basis="def2-svp", spin=1, verbose=0)
    assert found.energy == pytest.approx(scf.ROHF(mol).kernel(), abs=1e-8)
    assert found.s_squared == pytest.approx(0.75, abs=1e-8)


def test_heavy_elements_get_the_core_potential_of_their_basis(work):
    from grafico.atoms import ConceptualAtoms

    iodide = ConceptualAtoms(symbols=("I",), positions=((0.0, 0.0, 0.0),), charge=-1)
    found = single_point.function(SinglePointInput(atoms=iodide, level=Level(method="hf")), work()).electronic
    # With 28 core electrons replaced; all-electron iodine lies at -6918 hartree.
    assert found.energy == pytest.approx(-297.0, abs=3.0)
    assert found.mulliken == pytest.approx([-1.0], abs=1e-6)


@pytest.mark.parametrize("name", MOLECULES)
def test_all_charges_add_up_to_the_total_charge(name, references, work):
    found = analysis.function(AnalysisInput(atoms=structure_of(references[name]), level=Level()), work())
    for charges in (found.electronic.mulliken, found.lowdin, found.iao):
        assert sum(charges) == pytest.approx(0.0, abs=1e-6)
    assert found.electronic.mulliken == pytest.approx(references[name]["mulliken"], abs=5e-4)
    occupied = [orbital for orbital in found.orbitals if orbital.occupation > 0]
    assert max(orbital.energy_ev for orbital in occupied) == pytest.approx(found.electronic.orbitals.homo_ev)
    if name == "methyl_radical":
        assert sum(found.mulliken_spin) == pytest.approx(1.0, abs=1e-6)
    else:
        assert found.mulliken_spin is None


def test_intrinsic_charges_hardly_depend_on_the_basis(water, work):
    def oxygen(basis):
        found = analysis.function(AnalysisInput(atoms=water, level=Level(method="hf", basis=basis)), work())
        return found.electronic.mulliken[0], found.iao[0]

    (mulliken_small, iao_small), (mulliken_large, iao_large) = oxygen("def2-svp"), oxygen("def2-tzvp")
    assert abs(iao_large - iao_small) < 0.04 < abs(mulliken_large - mulliken_small)


def test_the_engine_is_recorded(water, work):
    import pyscf

    ctx = work()
    single_point.function(SinglePointInput(atoms=water, level=Level(method="hf", basis="sto-3g")), ctx)
    assert ctx.versions == {"pyscf": pyscf.__version__}


def test_a_simulated_gpu_computes_on_the_cpu(water, work):
    level = Level(method="hf", basis="sto-3g")
    ctx = work(device="gpu", gpu_memory_mib=1000)
    found = single_point.function(SinglePointInput(atoms=water, level=level), ctx)
    plain = single_point.function(SinglePointInput(atoms=water, level=level), work())
    assert found.electronic.energy == pytest.approx(plain.electronic.energy, abs=1e-10)
    assert "gpu4pyscf" not in ctx.versions


def test_pyscf_writes_to_the_standard_output_of_now_and_not_of_when_it_was_imported(water, work, monkeypatch, capfd):
    from io import StringIO

    from pyscf import gto

    closed = StringIO()
    closed.close()
    monkeypatch.setattr(gto.mole.MoleBase, "stdout", closed)
    single_point.function(SinglePointInput(atoms=water, level=Level(method="hf", basis="sto-3g")), work())
    assert "converged SCF energy" in capfd.readouterr().out
