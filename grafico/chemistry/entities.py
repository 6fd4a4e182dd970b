"""From the results of the chemistry graphs to entities of the knowledge base."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy

from grafico.chemistry.concepts import (
    CHEMISTRY,
    AbsorptionSpectrum,
    Conformer,
    ConformerSearch,
    DFTCalculation,
    Ensemble,
    EnsembleMember,
    Environment,
    ExcitedState,
    LevelOfTheory,
    Molecule,
    QuantumCalculation,
)
from grafico.chemistry.identity import atoms_of, conformer_entity, identify, level_entity, molecule_entity
from grafico.chemistry.spectrum import absorptivity, energy_axis
from grafico.knowledge import Entity, Run
from grafico.units import ev_to_nanometre

# The graphs import this module, so it must not import theirs.
if TYPE_CHECKING:
    from grafico.chemistry.ensemble_request import Environment as EnvironmentChoice
    from grafico.chemistry.ensemble_result import EnsembleMember as MemberResult
    from grafico.chemistry.ensemble_result import EnsembleResult, EnvironmentResult, SpectrumSummary
    from grafico.chemistry.properties import Electronic
    from grafico.chemistry.quantum_chemistry.request import QCResult

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
    "atoms_of",
    "ensemble_entities",
    "level_entity",
    "molecule_entity",
    "quantum_chemistry_entities",
]


EntityT = TypeVar("EntityT", bound=Entity)


def ensemble_entities(result: "EnsembleResult", run: Run | None = None) -> list[Entity]:
    """Return the ensembles of a result, with all that they refer to.

    May take a second where RDKit has to find out what the molecule is: call it in a thread.

    Parameters
    ----------
    result
        The end of an ensemble spectrum job.
    run
        Marked as having generated them, and returned with them.
    """
    first = result.environments[0].members[0].atoms
    # A shell's atoms are not the molecule's, so such a structure does not tell which molecule it is.
    bare = first if result.environments[0].environment.shell is None else None
    name = identify(bare, smiles=result.smiles)
    molecule = Molecule(
        label=result.label or None,
        identifier=name.identifier if name.identifier != "unknown" else f"formula:{result.formula}",
        charge=result.charge,
        multiplicity=result.multiplicity,
        formula=result.formula,
        smiles=name.smiles,
        inchikey=name.inchikey,
    )
    found = result.search
    search = ConformerSearch(
        molecule=molecule,
        engine=found.engine,
        candidates=found.candidates,
        failed=found.failed,
        duplicates=found.duplicates,
        conformers=found.conformers,
        converged=found.converged,
        keys=frozenset(found.keys),
    )
    known: dict[str, Entity] = {}
    return _with_run([_ensemble(part, result, molecule, search, known) for part in result.environments], run)


def quantum_chemistry_entities(result: "QCResult", run: Run | None = None) -> list[Entity]:
    """Return the calculations of a result, with all that they refer to.

    May take a second where RDKit has to find out what the molecule is: call it in a thread.

    Parameters
    ----------
    result
        The end of a quantum chemistry walk.
    run
        Marked as having generated them, and returned with them.
    """
    molecule = molecule_entity(result.atoms, label=result.label)
    conformer = conformer_entity(result.atoms, molecule)
    level = level_entity(result.level)
    of_states = _key_of_states(result.keys)
    excited_level = level if result.excited_level is None else level_entity(result.excited_level)
    states = [
        _state(
            conformer,
            excited_level,
            number,
            spin=state.kind,
            energy_ev=state.energy_ev,
            strength=state.oscillator_strength,
            keys=of_states,
        )
        for number, state in enumerate(result.excitations or (), start=1)
    ]
    for entity, state in zip(states, result.excitations or (), strict=True):
        entity.transition_dipole = state.transition_dipole
    entities: list[DFTCalculation] = []
    if result.energy is not None:
        calculation = DFTCalculation(
            label=result.label or None,
            conformer=conformer,
            level=level,
            keys=frozenset(result.keys.values()) - (of_states if excited_level != level else frozenset()),
            energy=result.energy,
            optimized=result.optimized,
            verified=None if result.vibrations is None else result.verified,
            excited_states=states if excited_level == level else [],
        )
        _add_electronic(calculation, result.electronic)
        _add_vibrations(calculation, result)
        entities.append(calculation)
    if states and (excited_level != level or not entities) and result.excited_electronic is not None:
        reference = result.excited_electronic
        excited = DFTCalculation(
            label=result.label or None,
            conformer=conformer,
            level=excited_level,
            keys=of_states,
            energy=reference.energy,
            excited_states=states,
        )
        _add_electronic(excited, reference)
        entities.append(excited)
    return _with_run(entities or [conformer], run)


def _with_run(entities: Sequence[Entity], run: Run | None) -> list[Entity]:
    if run is None:
        return list(entities)
    run.generated = run.generated | frozenset(entities)
    return [*entities, run]


def _ensemble(
    part: "EnvironmentResult",
    result: "EnsembleResult",
    molecule: Molecule,
    search: ConformerSearch,
    known: dict[str, Entity],
) -> Ensemble:
    level, environment = level_entity(part.level), _environment(part.environment)
    calculations = [_once(_member_calculation(member, molecule, level, known), known) for member in part.members]
    key = _ensemble_key(calculations, part, result)
    members = [
        _member(member, calculation, key, molecule)
        for member, calculation in zip(part.members, calculations, strict=True)
    ]
    ensemble = Ensemble(
        label=f"{result.label}, {part.environment.name}",
        ensemble_key=key,
        molecule=molecule,
        environment=environment,
        environment_name=part.environment.name,
        level=level,
        temperature=result.temperature,
        weighed=result.energy,
        uses_degeneracy=result.use_degeneracy,
        members=members,
        main=next(member for member in members if member.name == part.main),
        search=search,
    )
    spectra = (
        _spectrum("ensemble", part.members, part.ensemble, ensemble),
        _spectrum("main conformer", [part.member(part.main)], part.main_conformer, ensemble),
    )
    ensemble.spectra = frozenset(spectrum for spectrum in spectra if spectrum is not None)
    return ensemble


def _ensemble_key(calculations: Iterable[DFTCalculation], part: "EnvironmentResult", result: "EnsembleResult") -> str:
    weights = [f"{member.id}:{member.population.weight!r}" for member in part.members]
    parts = [
        part.environment.name,
        *(calculation.iri for calculation in calculations),
        *weights,
        repr(result.temperature),
        result.energy,
    ]
    parts.append(str(result.use_degeneracy))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def _environment(choice: "EnvironmentChoice") -> Environment:
    continuum, shell = choice.continuum, choice.shell
    names = [f"{continuum.model.upper()}({continuum.name})"] if continuum else []
    names += [f"{shell.molecules} {shell.solvent.label}"] if shell else []
    return Environment(
        label=" + ".join(names) or "gas phase",
        solvent=continuum.name if continuum else None,
        solvent_model=continuum.model if continuum else None,
        shell_molecules=shell.molecules if shell else 0,
        shell_solvent=shell.solvent.label if shell else None,
    )


def _once(entity: EntityT, known: dict[str, Entity]) -> EntityT:
    """Return the entity of that IRI that came first: environments that share geometries share their calculations."""
    found = known.setdefault(entity.iri, entity)
    assert isinstance(found, type(entity))
    return found


def _member_calculation(
    member: "MemberResult", molecule: Molecule, level: LevelOfTheory, known: dict[str, Entity]
) -> DFTCalculation:
    conformer = _once(conformer_entity(member.atoms, molecule), known)
    states = [
        _once(
            _state(
                conformer,
                level,
                number,
                spin=stick.spin,
                energy_ev=stick.energy_ev,
                strength=stick.oscillator_strength,
                keys=_key_of_states(member.keys),
            ),
            known,
        )
        for number, stick in enumerate(member.sticks, start=1)
    ]
    return DFTCalculation(
        conformer=conformer,
        level=level,
        keys=frozenset(member.keys.values()),
        energy=member.energy,
        verified=member.verified or (None if member.lowest_frequency is None else False),
        wavefunction=member.wavefunction,
        gibbs_quasi_rrho=member.free_energy,
        lowest_wavenumber=member.lowest_frequency,
        excited_states=states,
    )


def _member(member: "MemberResult", calculation: DFTCalculation, key: str, molecule: Molecule) -> EnsembleMember:
    population = member.population
    return EnsembleMember(
        label=f"{molecule.label or molecule.formula} {member.id}",
        ensemble_key=key,
        name=member.id,
        conformer=calculation.conformer,
        calculation=calculation,
        weighed_energy=population.energy,
        relative_energy=population.relative,
        degeneracy=population.degeneracy,
        weight=population.weight,
        weight_with_degeneracy=population.weight_with_degeneracy,
        weight_without_degeneracy=population.weight_without_degeneracy,
        retained=population.retained,
        search_energy=member.search_energy,
    )


def _key_of_states(keys: Mapping[str, str]) -> frozenset[str]:
    return frozenset(key for name, key in keys.items() if name == "tddft")


def _state(
    conformer: Conformer,
    level: LevelOfTheory,
    number: int,
    *,
    spin: str,
    energy_ev: float,
    strength: float,
    keys: Iterable[str] = (),
) -> ExcitedState:
    return ExcitedState(
        conformer=conformer,
        level=level,
        keys=frozenset(keys),
        number=number,
        spin=spin,
        excitation_energy=energy_ev,
        wavelength=ev_to_nanometre(energy_ev),
        oscillator_strength=strength,
    )


def _spectrum(
    kind: str, members: "Sequence[MemberResult]", summary: "SpectrumSummary", ensemble: Ensemble
) -> AbsorptionSpectrum | None:
    alone = len(members) == 1
    weighed = [
        (stick.energy_ev, stick.oscillator_strength * (1.0 if alone else member.population.weight))
        for member in members
        if alone or member.population.retained
        for stick in member.sticks
    ]
    if not weighed:
        return None
    energies, strengths = [energy for energy, _ in weighed], [strength for _, strength in weighed]
    axis = energy_axis(energies, summary.broadening)
    top, over_wavelength, bright = summary.maximum_energy_axis, summary.maximum_wavelength_axis, summary.bright
    return AbsorptionSpectrum(
        label=f"{ensemble.label}, {kind}",
        ensemble_key=ensemble.ensemble_key,
        kind=kind,
        molecule=ensemble.molecule,
        environment=ensemble.environment,
        level=ensemble.level,
        shape=summary.broadening.shape,
        standard_width=summary.broadening.parameter,
        energies=axis,
        absorptivities=absorptivity(axis, energies, strengths, summary.broadening),
        maximum_wavelength=over_wavelength.wavelength_nm if over_wavelength else None,
        maximum_energy=top.energy_ev if top else None,
        maximum_absorptivity=top.absorptivity if top else None,
        bright_wavelength=bright.wavelength_nm if bright else None,
        bright_energy=bright.energy_ev if bright else None,
        bright_oscillator_strength=bright.oscillator_strength if bright else None,
    )


def _add_electronic(calculation: DFTCalculation, electronic: "Electronic | None") -> None:
    if electronic is None:
        return
    calculation.gap = electronic.gap_ev
    calculation.dipole = electronic.dipole
    calculation.s_squared = electronic.s_squared
    calculation.charges = numpy.asarray(electronic.mulliken, dtype="<f8")
    calculation.wavefunction = electronic.wavefunction


def _add_vibrations(calculation: DFTCalculation, result: "QCResult") -> None:
    vibrations, thermochemistry = result.vibrations, result.thermochemistry
    if vibrations is not None:
        calculation.wavenumbers = numpy.asarray(vibrations.wavenumbers, dtype="<f8")
        calculation.lowest_wavenumber = min(vibrations.wavenumbers, default=None)
        if vibrations.intensities is not None:
            calculation.infrared = numpy.asarray(vibrations.intensities, dtype="<f8")
    if thermochemistry is not None:
        calculation.temperature, calculation.pressure = thermochemistry.temperature, thermochemistry.pressure
        calculation.zero_point_energy = thermochemistry.zero_point_energy
        calculation.enthalpy, calculation.entropy = thermochemistry.enthalpy, thermochemistry.entropy
        calculation.gibbs = thermochemistry.gibbs
        calculation.gibbs_quasi_rrho = thermochemistry.gibbs_quasi_rrho
