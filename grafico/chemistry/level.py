"""What the name of a method means: functional, non-local part, dispersion and solvent as PySCF takes them.

Dispersion names, and what they stand for here:

=============== ==========================================================================================
``d3``          the same as ``d3bj``
``d3bj``        D3 with Becke-Johnson damping, two-body terms only (Grimme 2011, doi:10.1002/jcc.21759)
``d3zero``      D3 with zero damping, two-body terms only (Grimme 2010, doi:10.1063/1.3382344)
``d3bjm`` ...   modified damping ``d3bjm``, ``d3zerom`` (Smith 2016), optimized power ``d3op`` (Witte 2017)
``d4``          D4 with its three-body term (Caldeweyher 2019, doi:10.1063/1.5090222)
``b3lyp-d3bj``  B3LYP and ``d3bj``; likewise for any functional with parameters
``wb97x-d4``    ωB97X-V without its VV10 part, with D4 fitted to it (Najibi and Goerigk 2020,
                doi:10.1002/jcc.26411). PySCF up to 2.15 takes the *2008* ωB97X for this name and warns.
``wb97m-d4``    ωB97M-V without VV10, with D4 (same source); likewise ``b97m-d4`` and the ``-d3bj`` forms
``wb97x-d3``    the refitted functional of Lin 2013 with its own zero-damped D3 (doi:10.1021/ct300715s)
``wb97x-d``     refused: its dispersion (Chai 2008) is not in PySCF, which would silently leave it out
=============== ==========================================================================================
"""

import difflib
import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass

from grafico.atoms.optional import require
from grafico.chemistry.request import Level, Solvent
from grafico.errors import LevelError

__all__ = ["Method", "closest", "dielectric_constant", "resolve_method", "resolve_solvent", "solvent_names"]

DISPERSIONS = ("d3bj", "d3zero", "d3bjm", "d3zerom", "d3op", "d4")
_SPELLINGS = {"d3": "d3bj", "d3(bj)": "d3bj", "d3-bj": "d3bj", "d3(0)": "d3zero", "d3-zero": "d3zero", "none": ""}
_SUFFIX = re.compile(
    r"^(?P<functional>.+?)-(?P<dispersion>d3-bj|d3-zero|d3\(bj\)|d3\(0\)|d3bjm|d3bj|d3zerom|d3zero|d3op|d3|d4)$"
)

_COMBINED = {
    ("wb97x", "d4"): ("wb97x_v", "d4:wb97x"),
    ("wb97m", "d4"): ("wb97m_v", "d4:wb97m"),
    ("b97m", "d4"): ("b97m_v", "d4:b97m"),
    ("wb97x", "d3bj"): ("wb97x_v", "d3bj:wb97x"),
    ("wb97m", "d3bj"): ("wb97m_v", "d3bj:wb97m"),
    ("b97m", "d3bj"): ("b97m_v", "d3bj:b97m"),
    # 399 is HYB_GGA_XC_WB97X_D3 in libxc; PySCF refuses the name, not the number.
    ("wb97x", "d3zero"): ("399", "d3zero:wb97x"),
}
"""Pairs whose functional is not the one of that name alone; the VV10 part is left out of all of them."""

_REFUSED = {
    "wb97x-d": ("its dispersion (Chai and Head-Gordon 2008) is not in PySCF", "wb97x-d3 or wb97x-d4"),
    "b97-d": ("its own D2 dispersion is not in PySCF", "b97-d with dispersion d3bj (B97-D3) or b97m-d4"),
}
_SOLVENT_SPELLINGS = {
    "dcm": "dichloromethane",
    "dmf": "n,n-dimethylformamide",
    "dmso": "dimethylsulfoxide",
    "thf": "tetrahydrofuran",
    "heptane": "n-heptane",
    "hexane": "n-hexane",
    "mecn": "acetonitrile",
    "ether": "diethylether",
    "ethyl acetate": "ethylethanoate",
    "dimethylformamide": "n,n-dimethylformamide",
    "h2o": "water",
}


@dataclass(frozen=True)
class Method:
    """A method as PySCF takes it."""

    functional: str | None
    """``mf.xc``; None for Hartree-Fock."""
    dispersion: str | None
    """``mf.disp``, always with the parameter set spelled out, as in ``d3bj:b3lyp``."""
    nonlocal_: bool
    """Whether the VV10 part of the functional is computed."""

    @property
    def hartree_fock(self) -> bool:
        """True for Hartree-Fock."""
        return self.functional is None


def closest(name: str, known: Iterable[str], *, count: int = 3) -> str:
    """Return ``did you mean …?`` for a hint, or an empty string."""
    found = difflib.get_close_matches(name, dict.fromkeys(known), n=count, cutoff=0.6)
    return f"did you mean {' or '.join(found)}?" if found else ""


@functools.lru_cache(maxsize=256)
def resolve(method: str, dispersion: str | None) -> Method:
    """Return what a method and a dispersion name mean together; see :func:`resolve_method`."""
    functional, wanted = _split(method, dispersion)
    if functional in _REFUSED and wanted is None:
        why, instead = _REFUSED[functional]
        raise LevelError(f"functional {functional!r}: {why}", hint=f"use {instead}")
    if functional.endswith("-3c"):
        raise LevelError(
            f"functional {functional!r} is a composite method with a basis of its own", hint="use wb97x-d4"
        )
    if (functional, wanted) in _COMBINED:
        xc, disp = _COMBINED[functional, wanted]  # type: ignore[index]
        return Method(functional=xc, dispersion=disp, nonlocal_=False)
    if functional in ("hf", "rhf", "uhf", "rohf", "scf"):
        return Method(functional=None, dispersion=_dispersion("hf", wanted), nonlocal_=False)
    libxc = require("pyscf.dft.libxc", purpose="for density functionals")
    if not _known_functional(functional):
        underscored = functional.replace("-", "_")
        if not _known_functional(underscored):
            known = [name.lower() for name in (*_POPULAR, *libxc.XC_ALIAS, *libxc.XC_CODES)]
            hint = closest(functional, known) or "see the functionals of libxc"
            raise LevelError(f"functional {functional!r} is not known", hint=hint)
        functional = underscored
    nonlocal_ = bool(libxc.is_nlc(functional))
    if nonlocal_ and wanted:
        raise LevelError(
            f"functional {functional!r} has the VV10 dispersion in it already; {wanted} would count it twice",
            hint="leave dispersion out",
        )
    return Method(functional=functional, dispersion=_dispersion(functional, wanted), nonlocal_=nonlocal_)


_POPULAR = (
    "b3lyp", "pbe", "pbe0", "blyp", "bp86", "tpss", "tpssh", "r2scan", "m06-2x", "m06-l", "cam-b3lyp", "wb97x-d4",
    "wb97x-d3", "wb97x-v", "wb97m-v", "hse06", "revpbe", "bhandhlyp", "lc-wpbe", "hf",
)  # fmt: skip


def resolve_method(level: Level) -> Method:
    """Return functional, dispersion and non-local part of a level.

    Raises
    ------
    LevelError
        Unknown functional or dispersion, or one that has no parameters for the other; with suggestions.
    """
    return resolve(level.method, level.dispersion)


def _split(method: str, dispersion: str | None) -> tuple[str, str | None]:
    match = _SUFFIX.match(method)
    functional, suffix = (match["functional"], match["dispersion"]) if match else (method, None)
    given = [_SPELLINGS.get(name, name) for name in (suffix, dispersion) if name is not None]
    for name in given:
        if name and name not in DISPERSIONS:
            hint = closest(name, DISPERSIONS) or f"give one of d3, {', '.join(DISPERSIONS)}"
            raise LevelError(f"dispersion {name!r} is not known", hint=hint)
    if len(set(given)) > 1:
        raise LevelError(
            f"method {method!r} and dispersion {dispersion!r} contradict each other", hint="give one of them"
        )
    wanted = (given[0] or None) if given else None
    if functional == "wb97x" and suffix == "d3":
        wanted = "d3zero"
    return functional, wanted


def _known_functional(functional: str) -> bool:
    from pyscf.dft import libxc

    try:
        # A name of one letter or a bare number is legal for libxc, but nobody means it.
        return not functional.isdigit() and bool(libxc.parse_xc(functional)[1] or libxc.parse_xc(functional)[0][0])
    except (KeyError, ValueError, NotImplementedError, AssertionError, IndexError):
        return False


def _dispersion(functional: str, wanted: str | None) -> str | None:
    """Return PySCF's name of a dispersion after making sure that it has parameters for the functional."""
    if wanted is None:
        return None
    name = functional.replace("_", "-")
    if has_parameters(name, wanted):
        return f"{wanted}:{name}"
    others = [other for other in DISPERSIONS if has_parameters(name, other)]
    known = (
        f"{functional} has parameters for {', '.join(others)}" if others else f"no dispersion is fitted to {functional}"
    )
    raise LevelError(f"dispersion {wanted!r} has no parameters for {functional!r}", hint=known)


@functools.lru_cache(maxsize=1024)
def has_parameters(functional: str, dispersion: str) -> bool:
    """Whether the s-dftd3 or dftd4 library has parameters for a functional."""
    gto = require("pyscf.gto")
    if dispersion == "d4":
        library = require("pyscf.dispersion.dftd4", purpose="for D4 dispersion")
    else:
        library = require("pyscf.dispersion.dftd3", purpose="for D3 dispersion")
    hydrogen = gto.M(atom="H 0 0 0; H 0 0 0.74", verbose=0)
    try:
        if dispersion == "d4":
            library.DFTD4Dispersion(hydrogen, xc=functional)
        else:
            library.DFTD3Dispersion(hydrogen, xc=functional, version=dispersion)
    except RuntimeError:
        return False
    return True


@functools.lru_cache(maxsize=1)
def _solvent_table() -> dict[str, str]:
    smd = require("pyscf.solvent.smd", purpose="for solvents")
    return {name.lower(): name for name in smd.solvent_db}


def solvent_names() -> tuple[str, ...]:
    """Return the names of all solvents, in lower case."""
    return tuple(sorted(_solvent_table()))


def resolve_solvent(solvent: Solvent) -> str:
    """Return PySCF's name of a solvent.

    Raises
    ------
    LevelError
        No such solvent; with suggestions.
    """
    table = _solvent_table()
    name = _SOLVENT_SPELLINGS.get(solvent.name, solvent.name)
    for spelling in (name, name.replace(" ", ""), f"n-{name}"):
        if spelling in table:
            return table[spelling]
    hint = closest(name, table) or "such as water, acetonitrile, toluene, n-heptane"
    raise LevelError(f"solvent {solvent.name!r} is not in the SMD table of {len(table)} solvents", hint=hint)


def dielectric_constant(solvent: Solvent) -> float:
    """Return the static dielectric constant of a solvent (Minnesota solvent descriptor database)."""
    smd = require("pyscf.solvent.smd", purpose="for solvents")
    return float(smd.solvent_db[resolve_solvent(solvent)][5])
