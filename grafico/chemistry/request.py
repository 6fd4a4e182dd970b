"""What a job says about molecules and levels of theory; every field with its default and its range."""

import re
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from grafico.calculations import Model
from grafico.errors import BadInput

__all__ = ["ExcitedStates", "GpuChoice", "Level", "MoleculeInput", "Solvent"]


def _lower(text: object) -> object:
    return text.strip().lower() if isinstance(text, str) else text


Name: TypeAlias = Annotated[str, BeforeValidator(_lower), Field(min_length=1, max_length=80)]
"""A name that is the same in upper and lower case."""

GpuChoice: TypeAlias = Literal["auto", "none", "slot", "exclusive"]
"""Where DFT runs: no GPU, one slot of one, or a whole one; ``auto`` asks for a slot from 150 basis functions up."""


class MoleculeInput(Model):
    """One molecule: exactly one of ``smiles``, ``name``, ``file``, ``xyz`` and ``iri``.

    ``name`` is looked up in a small table that comes with grafico; ``file`` is an XYZ, extended XYZ, SDF or MOL file.
    """

    smiles: str | None = Field(
        default=None, min_length=1, max_length=5000, description="SMILES; a 3D structure is built from it"
    )
    name: str | None = Field(
        default=None, min_length=1, max_length=200, description="a name from the shipped table, such as 'water'"
    )
    file: str | None = Field(
        default=None,
        min_length=1,
        description="path of an XYZ, extended XYZ, SDF or MOL file",
        json_schema_extra={"format": "path"},
    )
    xyz: str | None = Field(
        default=None,
        min_length=1,
        max_length=2_000_000,
        description="XYZ text, Å, with or without its two header lines",
    )
    iri: str | None = Field(default=None, min_length=1, description="IRI of a molecule in the knowledge base")
    charge: int | None = Field(
        default=None, ge=-20, le=20, description="total charge, e; default: what the SMILES or file says, else 0"
    )
    multiplicity: int | None = Field(
        default=None,
        ge=1,
        le=20,
        description="2S + 1; default: what the file says, a SMILES's radical electrons plus 1, else the lowest possible",
    )

    @model_validator(mode="after")
    def _exactly_one(self) -> "MoleculeInput":
        given = [key for key in ("smiles", "name", "file", "xyz", "iri") if getattr(self, key) is not None]
        if len(given) != 1:
            found = f"{' and '.join(given)} were given" if given else "none was given"
            raise ValueError(f"give exactly one of smiles, name, file, xyz and iri; {found}")
        return self

    @property
    def label(self) -> str:
        """What people call it."""
        if self.file is not None:
            # A run numbers the copies of the files that it was given.
            return re.sub(r"\A\d+-(?=.)", "", stem) if (stem := Path(self.file).stem) else self.file
        return self.name or self.smiles or self.iri or self._formula()

    def _formula(self) -> str:
        from grafico.atoms.elements import hill_formula
        from grafico.chemistry.molecules import resolve_molecule

        try:
            return hill_formula(resolve_molecule(self).symbols)
        except BadInput:
            return "xyz"  # what is wrong with it is said when it is checked


class Solvent(Model):
    """A continuum solvent."""

    model: Literal["smd", "c-pcm", "ddcosmo"] = Field(
        default="smd", description="SMD (Marenich 2009), C-PCM or ddCOSMO"
    )
    name: Name = Field(description="a solvent of the SMD table, such as 'water' or 'n-heptane'")


def _not_absurd(value: float) -> float:
    if not 1e-13 <= value <= 1e-5:
        raise ValueError("must lie between 1e-13 and 1e-5 hartree")
    return value


class Level(Model):
    """A level of theory.

    ``method`` may carry its dispersion as the literature writes it (``b3lyp-d3bj``, ``wb97x-d4``); see
    :mod:`grafico.chemistry.level` for what each alias means.
    """

    method: Name = Field(default="b3lyp", description="'hf' or a density functional by its libxc or PySCF name")
    basis: Name = Field(default="def2-svp", description="basis set by its PySCF name")
    dispersion: Name | None = Field(
        default=None, description="d3, d3bj, d3zero, d3bjm, d3zerom, d3op or d4 ('d3' means d3bj); default none"
    )
    solvent: Solvent | None = Field(default=None, description="continuum solvent; default gas phase")
    restricted: bool | None = Field(
        default=None,
        description="True: RHF/RKS, or ROHF/ROKS for open shells; False: UHF/UKS; default: restricted for singlets, unrestricted otherwise",
    )
    density_fit: bool = Field(default=False, description="density fitting of the two-electron integrals")
    auxiliary_basis: Name | None = Field(
        default=None, description="basis of the density fitting; default: the one made for the basis set"
    )
    grid: int = Field(default=3, ge=1, le=9, description="level of the integration grid; 1 costs about 3e-5 hartree")
    scf_convergence: Annotated[float, AfterValidator(_not_absurd)] = Field(
        default=1e-9, description="energy change at which the SCF has converged, hartree, 1e-13 to 1e-5"
    )
    scf_cycles: int = Field(
        default=100, ge=1, le=2000, description="most SCF cycles before the SCF counts as not converged"
    )

    @model_validator(mode="after")
    def _auxiliary_needs_fitting(self) -> "Level":
        if self.auxiliary_basis is not None and not self.density_fit:
            raise ValueError("auxiliary_basis is used by density fitting only; set density_fit: true")
        return self

    @property
    def label(self) -> str:
        """The level as a paper writes it: ``B3LYP-D3BJ/def2-SVP, SMD(water)``."""
        method = self.method.upper() + (f"-{self.dispersion.upper()}" if self.dispersion else "")
        basis = self.basis.replace("svp", "SVP").replace("zvp", "ZVP").replace("qzvp", "QZVP")
        fitted = ", density fitted" if self.density_fit else ""
        solvent = f", {self.solvent.model.upper()}({self.solvent.name})" if self.solvent else ""
        return f"{method}/{basis}{fitted}{solvent}"


class ExcitedStates(Model):
    """Which excited states, and how."""

    roots: int = Field(default=10, ge=1, le=200, description="states of each kind")
    singlets: bool = Field(
        default=True, description="singlet states (for an open-shell reference: the spin-conserving ones)"
    )
    triplets: bool = Field(default=False, description="triplet states; closed-shell references only")
    tda: bool = Field(default=False, description="Tamm-Dancoff approximation; default full TDDFT")
    convergence: float = Field(default=1e-5, ge=1e-9, le=1e-3, description="residual at which a root has converged")
    equilibrium_solvation: bool = Field(
        default=False,
        description="let the solvent follow the excitation; default: fast polarization only, as for vertical absorption",
    )

    @model_validator(mode="after")
    def _something(self) -> "ExcitedStates":
        if not (self.singlets or self.triplets):
            raise ValueError("neither singlets nor triplets were asked for")
        return self
