"""What the knowledge base holds of chemistry: the entity classes.

Natural keys are made of what identifies a thing in chemistry, so runs that meet the same molecule, geometry or level
of theory speak of the same thing. Numbers that differ between runs are told apart by the runs' graphs.
"""

from typing import Annotated, ClassVar

from pydantic import Field

from grafico.calculations import ArtifactRef
from grafico.knowledge import Array, Entity, Property, Unit
from grafico.knowledge.vocabulary import BASE, GRAFICO

__all__ = [
    "CHEMISTRY",
    "AbsorptionSpectrum",
    "Conformer",
    "ConformerSearch",
    "DFTCalculation",
    "Ensemble",
    "EnsembleMember",
    "Environment",
    "ExcitedState",
    "LevelOfTheory",
    "Molecule",
    "QuantumCalculation",
]

CHEMISTRY = BASE + "chemistry#"

Energy = Annotated[float, Unit("hartree")]
ElectronVolt = Annotated[float, Unit("eV")]
Nanometre = Annotated[float, Unit("nm")]
Temperature = Annotated[float, Unit("K")]
RelativeEnergy = Annotated[float, Unit("kcal/mol")]


class ChemicalEntity(Entity):
    """Something of the chemistry wing."""

    namespace: ClassVar[str] = CHEMISTRY


class Molecule(ChemicalEntity):
    """A molecule or ion in one spin state, apart from any geometry."""

    natural_key: ClassVar[tuple[str, ...]] = ("identifier", "charge", "multiplicity")

    identifier: str = Field(
        description="what tells it from others: its InChIKey with fixed hydrogens, else its canonical SMILES, else a "
        "digest of its connectivity"
    )
    charge: Annotated[int, Unit("e")] = Field(description="total charge")
    multiplicity: int = Field(description="2S + 1")
    formula: str = Field(description="Hill formula")
    smiles: str | None = Field(default=None, description="canonical isomeric SMILES")
    inchikey: str | None = Field(default=None, description="standard InChIKey")


class LevelOfTheory(ChemicalEntity):
    """A level of theory with everything that its energies depend on."""

    natural_key: ClassVar[tuple[str, ...]] = (
        "method",
        "basis",
        "dispersion",
        "solvent_model",
        "solvent",
        "restricted",
        "density_fit",
        "auxiliary_basis",
        "grid",
        "scf_convergence",
    )

    method: str = Field(description="functional, 'hf', or a semiempirical method")
    basis: str | None = Field(default=None, description="basis set")
    dispersion: str | None = Field(default=None, description="dispersion correction")
    solvent_model: str | None = Field(default=None, description="continuum model")
    solvent: str | None = Field(default=None, description="continuum solvent")
    restricted: bool | None = Field(default=None, description="restricted or unrestricted; none: by multiplicity")
    density_fit: bool | None = Field(default=None, description="density fitting")
    auxiliary_basis: str | None = Field(default=None, description="basis set of the density fitting")
    grid: int | None = Field(default=None, description="level of the integration grid")
    scf_convergence: Energy | None = Field(default=None, description="energy change of a converged SCF")


class Environment(ChemicalEntity):
    """Where a molecule is: gas phase, a continuum solvent, explicit solvent molecules, or the latter two."""

    natural_key: ClassVar[tuple[str, ...]] = ("solvent", "solvent_model", "shell_molecules", "shell_solvent")

    solvent: str | None = Field(default=None, description="continuum solvent")
    solvent_model: str | None = Field(default=None, description="continuum model")
    shell_molecules: int = Field(default=0, description="explicit solvent molecules")
    shell_solvent: str | None = Field(default=None, description="which they are")


class Conformer(ChemicalEntity):
    """One geometry of a molecule, with its explicit solvent molecules if it has any."""

    natural_key: ClassVar[tuple[str, ...]] = ("molecule", "symbols", "positions")

    molecule: Molecule = Field(description="whose geometry it is")
    symbols: tuple[str, ...] = Field(description="element symbols, one an atom")
    positions: Annotated[Array, Unit("Å")] = Field(description="Cartesian coordinates, shape (atoms, 3)")
    content: Annotated[str | None, Property(GRAFICO + "content")] = Field(
        default=None, description="digest of symbols and positions, by which calculations know it"
    )


class QuantumCalculation(ChemicalEntity):
    """What is computed for one geometry at one level of theory."""

    natural_key: ClassVar[tuple[str, ...]] = ("conformer", "level", "keys")

    conformer: Conformer = Field(description="final geometry")
    level: LevelOfTheory = Field(description="level of theory")
    keys: Annotated[frozenset[str], Property(GRAFICO + "key")] = Field(
        default=frozenset(), description="content keys of the calculations that it is made of"
    )
    energy: Energy = Field(description="electronic energy with dispersion and solvation")


class DFTCalculation(QuantumCalculation):
    """A calculation with density functional theory or Hartree-Fock."""

    optimized: bool | None = Field(default=None, description="whether the geometry is a stationary point of the level")
    verified: bool | None = Field(
        default=None, description="whether its frequencies say that it is a minimum; none: they were not computed"
    )
    gap: ElectronVolt | None = Field(default=None, description="LUMO minus HOMO")
    dipole: Annotated[tuple[float, float, float], Unit("D")] | None = Field(default=None, description="electric dipole")
    s_squared: float | None = Field(default=None, description="expectation value of S²")
    charges: Annotated[Array, Unit("e")] | None = Field(default=None, description="Mulliken charges, one an atom")
    wavefunction: ArtifactRef | None = Field(default=None, description="orbitals, a file of the run")
    wavenumbers: Annotated[Array, Unit("1/cm")] | None = Field(
        default=None, description="harmonic, ascending; imaginary ones negative"
    )
    lowest_wavenumber: Annotated[float, Unit("1/cm")] | None = Field(
        default=None, description="of the lowest mode; negative if imaginary"
    )
    infrared: Annotated[Array, Unit("km/mol")] | None = Field(
        default=None, description="infrared intensities, one a mode"
    )
    temperature: Temperature | None = Field(default=None, description="of the thermochemistry")
    pressure: Annotated[float, Unit("Pa")] | None = Field(default=None, description="of the thermochemistry")
    zero_point_energy: Energy | None = Field(default=None, description="zero-point vibrational energy")
    enthalpy: Energy | None = Field(default=None, description="enthalpy")
    entropy: Annotated[float, Unit("J/(mol K)")] | None = Field(default=None, description="RRHO entropy")
    gibbs: Energy | None = Field(default=None, description="Gibbs energy, RRHO")
    gibbs_quasi_rrho: Energy | None = Field(default=None, description="Gibbs energy, quasi-RRHO")
    excited_states: list["ExcitedState"] = Field(default_factory=list, description="by energy")


class ExcitedState(ChemicalEntity):
    """One vertical excitation."""

    natural_key: ClassVar[tuple[str, ...]] = ("conformer", "level", "keys", "number")

    conformer: Conformer = Field(description="geometry")
    level: LevelOfTheory = Field(description="level of theory")
    keys: Annotated[frozenset[str], Property(GRAFICO + "key")] = Field(
        default=frozenset(), description="content keys of the calculations that it is made of"
    )
    number: int = Field(description="counted from 1 in the calculation's list")
    spin: str = Field(description="singlet, triplet or spin-conserving")
    excitation_energy: ElectronVolt = Field(description="vertical excitation energy")
    wavelength: Nanometre = Field(description="of a photon of that energy")
    oscillator_strength: float = Field(description="length gauge")
    transition_dipole: Annotated[tuple[float, float, float], Unit("e a0")] | None = Field(
        default=None, description="length gauge"
    )


class EnsembleMember(ChemicalEntity):
    """The share that a conformer has in an ensemble."""

    natural_key: ClassVar[tuple[str, ...]] = ("ensemble_key", "name")

    ensemble_key: str = Field(description="digest of what the ensemble is made of")
    name: str = Field(description="what the run calls it, such as conf-001")
    conformer: Conformer = Field(description="geometry")
    calculation: DFTCalculation = Field(description="where its energy and transitions come from")
    weighed_energy: Energy = Field(description="energy that was weighed, electronic or free")
    relative_energy: RelativeEnergy = Field(description="above the lowest")
    degeneracy: int = Field(description="how often it counts")
    weight: float = Field(description="Boltzmann weight that was used, 0 to 1")
    weight_with_degeneracy: float = Field(description="0 to 1")
    weight_without_degeneracy: float = Field(description="0 to 1")
    retained: bool = Field(description="whether it counts in the spectrum")
    search_energy: Energy | None = Field(default=None, description="GFN2-xTB energy of the search")


class ConformerSearch(ChemicalEntity):
    """A search for conformers, and what it found."""

    natural_key: ClassVar[tuple[str, ...]] = ("molecule", "engine", "candidates", "failed", "duplicates", "conformers")

    molecule: Molecule = Field(description="what was searched")
    engine: str = Field(description="with what")
    candidates: int = Field(description="structures that were optimized")
    failed: int = Field(description="optimizations that failed")
    duplicates: int = Field(description="structures that were another version of a conformer")
    conformers: int = Field(description="distinct conformers that went on to refinement")
    converged: bool | None = Field(default=None, description="whether the last batch found nothing new")
    keys: Annotated[frozenset[str], Property(GRAFICO + "key")] = Field(
        default=frozenset(), description="content keys of the calculations that it is made of"
    )


class Ensemble(ChemicalEntity):
    """A Boltzmann ensemble of conformers in one environment."""

    natural_key: ClassVar[tuple[str, ...]] = ("ensemble_key",)

    ensemble_key: str = Field(description="digest of what the ensemble is made of")
    molecule: Molecule = Field(description="whose conformers they are")
    environment: Environment = Field(description="where it is")
    environment_name: str = Field(description="what the job calls that")
    level: LevelOfTheory = Field(description="level of theory of the weights")
    temperature: Temperature = Field(description="of the weights")
    weighed: str = Field(description="electronic or free energies")
    uses_degeneracy: bool = Field(description="whether degeneracies count in the weights")
    members: list[EnsembleMember] = Field(description="lowest first")
    main: EnsembleMember = Field(description="the heaviest")
    search: ConformerSearch | None = Field(default=None, description="where the conformers come from")
    spectra: frozenset["AbsorptionSpectrum"] = Field(default=frozenset(), description="its absorption spectra")


class AbsorptionSpectrum(ChemicalEntity):
    """An ultraviolet and visible absorption spectrum on an energy axis."""

    natural_key: ClassVar[tuple[str, ...]] = ("ensemble_key", "kind", "shape", "standard_width")

    ensemble_key: str = Field(description="digest of what the ensemble is made of")
    kind: str = Field(description="ensemble, or main conformer")
    molecule: Molecule = Field(description="whose spectrum it is")
    environment: Environment = Field(description="where it is")
    level: LevelOfTheory = Field(description="level of theory of the excited states")
    shape: str = Field(description="gaussian or lorentzian")
    standard_width: ElectronVolt = Field(
        description="standard deviation of a Gaussian, half width at half maximum of a Lorentzian"
    )
    energies: Annotated[Array, Unit("eV")] = Field(description="energy axis")
    absorptivities: Annotated[Array, Unit("L/(mol cm)")] = Field(description="decadic molar absorptivity ε")
    maximum_wavelength: Nanometre | None = Field(default=None, description="of the highest point over wavelength")
    maximum_energy: ElectronVolt | None = Field(default=None, description="of the highest point over energy")
    maximum_absorptivity: Annotated[float, Unit("L/(mol cm)")] | None = Field(
        default=None, description="ε at the highest point over energy"
    )
    bright_wavelength: Nanometre | None = Field(default=None, description="of the lowest bright transition")
    bright_energy: ElectronVolt | None = Field(default=None, description="of the lowest bright transition")
    bright_oscillator_strength: float | None = Field(default=None, description="of the lowest bright transition")
