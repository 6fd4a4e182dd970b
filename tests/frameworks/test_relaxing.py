"""One framework at a time: what is called converged is, and what is not never comes out."""

from pathlib import Path
from typing import Any

import numpy
import pytest
from cyanides import CADMIUM, ZINC, cyanide

from grafico.atoms import ConceptualAtoms, read_frames
from grafico.calculations import ArtifactRef, CalculationError, FailureKind, WorkContext
from grafico.frameworks.calculations.relax import relax
from grafico.frameworks.potentials import check_potential
from grafico.frameworks.relaxing import engines
from grafico.frameworks.relaxing.convergence import Bonding
from grafico.frameworks.relaxing.needs import GPU_FROM, relaxation_resources
from grafico.frameworks.steps import RelaxationSettings, RelaxedFramework, RelaxInput
from grafico.graphs import FolderArtifacts

pytest.importorskip("sevenn")

QUICK = RelaxationSettings(optimizer="lbfgs", fmax=0.05)


@pytest.fixture
def ctx(tmp_path: Path) -> WorkContext:
    return WorkContext(artifacts=FolderArtifacts(tmp_path), scratch=tmp_path)


def run(atoms: ConceptualAtoms, ctx: WorkContext, settings: RelaxationSettings = QUICK) -> RelaxedFramework:
    return relax.function(RelaxInput(structure=atoms, settings=settings), ctx)


def refused(atoms: ConceptualAtoms, ctx: WorkContext, settings: RelaxationSettings = QUICK) -> CalculationError:
    with pytest.raises(CalculationError) as failed:
        run(atoms, ctx, settings)
    return failed.value


def forces_by_hand(atoms: ConceptualAtoms) -> tuple[float, float, Any]:
    """Return the energy and what ASE's own filter calls the largest force, by a calculator that is nobody else's."""
    import ase
    from ase.filters import FrechetCellFilter
    from sevenn.calculator import SevenNetCalculator

    image = ase.Atoms(atoms.symbols, positions=atoms.positions, cell=atoms.cell, pbc=True)
    image.calc = SevenNetCalculator("7net-0", device="cpu")
    norms = numpy.linalg.norm(FrechetCellFilter(image).get_forces(), axis=1)
    return image.get_potential_energy(), float(norms.max()), image.get_stress()


def test_converged_is_what_another_calculator_finds_converged(
    ctx: WorkContext, capfd: pytest.CaptureFixture[str]
) -> None:
    found = run(cyanide("Zn", ZINC), ctx)
    energy, fmax, stress = forces_by_hand(found.structure)
    assert fmax <= 0.05
    assert found.energy == pytest.approx(energy, abs=1e-4)
    assert found.stress == pytest.approx(float(numpy.abs(stress).max()), abs=1e-5)
    assert found.energy < found.start_energy
    assert (found.bonds_made, found.bonds_broken) == (0, 0)
    # PBE, which 7net-0 learned from, gives cells that are a percent or two longer than measured ones.
    lengths = [numpy.linalg.norm(vector) for vector in found.structure.cell or ()]
    assert lengths == pytest.approx([ZINC] * 3, rel=0.02)
    volume = numpy.linalg.det(numpy.array(found.structure.cell))
    assert found.volume_change == pytest.approx(volume / ZINC**3 - 1)
    assert found.model.startswith("7net-0 (sevenn 0.")
    assert set(ctx.versions) >= {"sevenn", "ase", "pytorch", "potential", "precision"}
    assert "torch" not in ctx.versions  # by that name an outcome says that it used a GPU
    log = capfd.readouterr().out
    assert "float32, on cpu: 10 atoms" in log
    assert f"step {found.steps:4d}  energy" in log


@pytest.mark.parametrize("optimizer", ["fire", "lbfgs"])
@pytest.mark.parametrize("cell", [True, False])
def test_a_cap_of_three_steps_is_never_converged(optimizer: Any, cell: bool, ctx: WorkContext, tmp_path: Path) -> None:
    settings = RelaxationSettings(optimizer=optimizer, cell=cell, steps=3)
    error = refused(cyanide("Zn", ZINC, shift=0.1), ctx, settings)
    assert error.kind is FailureKind.NOT_CONVERGED
    assert "after 3 steps" in error.message
    assert error.details["steps"] == 3
    assert max(error.details["force"], error.details["cell_force"] or 0.0) > settings.fmax
    assert (error.details["stress"] is None) is not cell
    # People may go on from where it stopped.
    kept = ctx.artifacts.path(ArtifactRef(**error.details["last_geometry"]))
    ((last, said),) = read_frames(kept.read_text(), "last.xyz")
    assert float(said["force_max"]) == error.details["force"]
    assert last.symbols == cyanide("Zn", ZINC).symbols
    assert last.positions != cyanide("Zn", ZINC, shift=0.1).positions
    assert last.cell is not None


def test_what_is_converged_takes_no_step_and_stays_as_it_is(ctx: WorkContext) -> None:
    first = run(cyanide("Zn", ZINC), ctx)
    again = run(first.structure, ctx)
    assert again.steps == 0
    assert again.structure == first.structure
    assert again.volume_change == 0.0


def test_with_the_cell_fixed_the_cell_is_the_same_to_the_bit(ctx: WorkContext) -> None:
    given = cyanide("Zn", ZINC)
    found = run(given, ctx, QUICK.model_copy(update={"cell": False}))
    assert found.structure.cell == given.cell
    assert found.stress is None
    assert found.force <= 0.05


def test_the_same_input_gives_the_same_bits(ctx: WorkContext) -> None:
    first = run(cyanide("Zn", ZINC, shift=0.05), ctx)
    engines.forget()
    assert run(cyanide("Zn", ZINC, shift=0.05), ctx) == first


def test_what_a_structure_has_beside_atoms_is_kept(ctx: WorkContext) -> None:
    given = cyanide("Zn", ZINC).model_copy(update={"docking_points": ((1.0, 2.0, 3.0),), "multiplicity": 3})
    found = run(given, ctx, RelaxationSettings(fmax=1.0, optimizer="lbfgs"))
    assert found.structure.docking_points == given.docking_points
    assert found.structure.multiplicity == 3


def test_a_left_handed_cell_is_the_same_crystal_and_stays_left_handed(ctx: WorkContext) -> None:
    given = cyanide("Zn", ZINC)
    assert given.cell is not None
    left = given.model_copy(update={"cell": (given.cell[1], given.cell[0], given.cell[2])})
    found, mirrored = run(given, ctx), run(left, ctx)
    assert mirrored.energy == pytest.approx(found.energy, abs=2e-3)
    assert numpy.linalg.det(numpy.array(mirrored.structure.cell)) < 0
    assert mirrored.volume_change == pytest.approx(found.volume_change, abs=2e-3)


def test_no_crystal_is_refused(ctx: WorkContext) -> None:
    given = cyanide("Zn", ZINC)
    no_cell = refused(given.model_copy(update={"cell": None}), ctx)
    flat = refused(given.model_copy(update={"cell": ((5.9, 0, 0), (0, 5.9, 0), (5.9, 5.9, 0))}), ctx)
    # The first atom sits on the last one's image across the cell's face.
    x, y, z = given.positions[0]
    onto = (*given.positions[:-1], (x + ZINC - 0.1, y, z))
    clash = refused(given.moved(onto), ctx)
    assert [error.kind for error in (no_cell, flat, clash)] == [FailureKind.BAD_INPUT] * 3
    assert "cell" in no_cell.message
    assert "Å³" in flat.message
    assert "atoms 1 (Zn) and 10 (N) are 0.10 Å apart" in clash.message


def test_elements_that_the_potential_does_not_know_are_named(ctx: WorkContext) -> None:
    # 7net-0 was trained on MPtrj, which has 89 elements and no radon.
    error = refused(cyanide("Rn", CADMIUM), ctx)
    assert error.kind is FailureKind.BAD_INPUT
    assert "does not know Rn" in error.message


def test_functionals_of_one_model_differ(ctx: WorkContext) -> None:
    energies = []
    for model in ("7net-mf-0/PBE", "7net-mf-0/R2SCAN"):
        error = refused(cyanide("Zn", ZINC), ctx, RelaxationSettings(model=model, steps=1))
        energies.append(error.details["energy"])
    # SCAN-like functionals give total energies lower by several eV an atom for metals; here only that they differ.
    assert abs(energies[0] - energies[1]) > 1.0


def test_another_package_relaxes_too(ctx: WorkContext) -> None:
    pytest.importorskip("chgnet")
    found = run(cyanide("Zn", ZINC), ctx, QUICK.model_copy(update={"model": "chgnet", "fmax": 0.1}))
    assert found.model.startswith("chgnet (chgnet 0.")
    assert found.force <= 0.1
    assert [numpy.linalg.norm(v) for v in found.structure.cell or ()] == pytest.approx([ZINC] * 3, rel=0.03)


class Pretended:
    """Loads a potential that says what it is told to: for what a real one does only when it goes wrong."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, stress: float = 0.0, energy: float = -1.0) -> None:
        from ase.calculators.calculator import Calculator

        class Told(Calculator):
            implemented_properties = ["energy", "forces", "stress"]  # noqa: RUF012

            def calculate(self, atoms: Any = None, properties: Any = None, system_changes: Any = ()) -> None:
                super().calculate(atoms, properties, system_changes)
                diagonal = numpy.array([stress] * 3 + [0.0] * 3)
                self.results = {"energy": energy, "forces": numpy.zeros((len(atoms), 3)), "stress": diagonal}

        loaded = engines.Loaded(check_potential("7net-0"), "0" * 64, "cpu", Told(), None, lambda: None)
        monkeypatch.setattr("grafico.frameworks.calculations.relax.load", lambda model, ctx: loaded)


@pytest.mark.parametrize(("stress", "word"), [(-0.5, "exploded"), (0.5, "collapsed")])
def test_a_cell_that_runs_away_is_not_converged(
    stress: float, word: str, ctx: WorkContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    Pretended(monkeypatch, stress=stress)
    error = refused(cyanide("Zn", ZINC), ctx, RelaxationSettings(steps=2000))
    assert error.kind is FailureKind.NOT_CONVERGED
    assert word in error.message
    assert error.details["steps"] < 2000


def test_energies_that_are_no_numbers_are_the_engines_error(ctx: WorkContext, monkeypatch: pytest.MonkeyPatch) -> None:
    Pretended(monkeypatch, energy=float("nan"))
    error = refused(cyanide("Zn", ZINC), ctx)
    assert error.kind is FailureKind.ENGINE_ERROR
    assert "nan" in error.message


def test_a_framework_that_fell_apart_is_refused_and_bonds_are_counted() -> None:
    import ase

    # A chain of carbon through the cell: 4 atoms, 4 bonds, one of them through its face; single bonds are 1.53 Å.
    chain = ase.Atoms("C4", positions=[(1.5 * i, 5, 5) for i in range(4)], cell=(6.0, 15, 15), pbc=True)
    bonding = Bonding(chain)
    assert bonding.changes(chain) == (0, 0)
    wrapped = chain.copy()
    wrapped.positions += (3.5, 0, 0)  # it went through the face, and nothing else
    assert bonding.changes(wrapped) == (0, 0)
    opened = chain.copy()
    opened.set_cell((8.0, 15, 15))  # without the bond through the face it is still one piece
    assert bonding.changes(opened) == (0, 1)
    lost = chain.copy()
    lost.positions[1] += (0, 4, 0)
    with pytest.raises(CalculationError, match="fell apart") as failed:
        bonding.changes(lost)
    assert failed.value.kind is FailureKind.REFUSED
    assert failed.value.details["bonds_broken"] == 2
    assert failed.value.details["pieces"] == 2


def test_needs_grow_with_atoms_and_steps_and_a_gpu_is_asked_for_where_it_pays() -> None:
    settings = RelaxationSettings()
    small = relaxation_resources([GPU_FROM - 1], settings)
    large = relaxation_resources([400], settings)
    assert small.gpu == "none"
    assert large.gpu == "slot"
    assert large.gpu_memory_mib > 0
    assert large.walltime_without_gpu_s > small.walltime_s
    assert large.without_gpu().memory_mib > small.memory_mib
    longer = relaxation_resources([400], settings.model_copy(update={"steps": 5000}))
    assert longer.walltime_without_gpu_s > 5 * large.walltime_without_gpu_s
    # What is wrong with a name is said by the calculation, not by a planner.
    assert relaxation_resources([10], settings.model_copy(update={"model": "nonsense"})).memory_mib > 0
