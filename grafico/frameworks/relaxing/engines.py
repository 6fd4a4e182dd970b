"""Potentials ready to compute: loaded once a process, on the device and with the threads that a calculation was given.

SevenNet and CHGNet ship weights and are tested here. MACE, Orb and MatterSim are called as their packages document it,
and are unverified: their weights could not be had where this was written. So is the GPU.
"""

import contextlib
import os
import sys
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from grafico.atoms.optional import require
from grafico.calculations import CalculationError, FailureKind, WorkContext
from grafico.calculations.gpu_memory import is_out_of_memory
from grafico.errors import LevelError
from grafico.frameworks.potentials import Potential, check_potential, digest_of, find_weights
from grafico.frameworks.relaxing.offline import without_network

__all__ = ["Loaded", "forget", "load", "memory_failures", "prepare_torch"]

KEPT = 3
"""Models that a process keeps; each takes some 100 to 500 MiB."""

_NO_MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "CUBLAS_STATUS_ALLOC_FAILED")


@dataclass
class Loaded:
    """A potential with its weights in memory."""

    potential: Potential
    digest: str
    device: str
    calculator: Any
    """For ASE."""
    elements: frozenset[int] | None
    """Atomic numbers that it knows; none: it does not say."""
    load_module: Callable[[], Any]
    batch: Any = field(default=None, repr=False)
    """For torch-sim, which changes the model that it is given: made of another copy of the weights, when first needed."""

    @property
    def label(self) -> str:
        """Name, version of the package, and first digits of the digest of the weights."""
        distribution = self.potential.engine.distribution
        name = self.potential.name.partition("#")[0]
        return f"{name} ({distribution} {version(distribution)}, weights {self.digest[:12]})"

    def check_elements(self, symbols: tuple[str, ...]) -> None:
        """Refuse elements that the potential does not know.

        Raises
        ------
        CalculationError
            Of kind ``bad_input``; names them.
        """
        from grafico.atoms.elements import atomic_number

        if self.elements is None:
            return
        unknown = sorted({symbol for symbol in symbols if atomic_number(symbol) not in self.elements})
        if unknown:
            raise CalculationError(
                FailureKind.BAD_INPUT,
                f"{self.potential.name} does not know {', '.join(unknown)}; it was trained on {len(self.elements)} elements."
                " Choose another potential",
                details={"unknown_elements": unknown},
            )

    def batch_model(self) -> Any:
        """Return the model for torch-sim.

        Raises
        ------
        CalculationError
            Of kind ``bad_input`` where torch-sim has none for this potential.
        """
        if self.batch is None:
            self.batch = _batch_model(self)
        return self.batch


_cache: OrderedDict[tuple[str, str, str], Loaded] = OrderedDict()


def forget() -> None:
    """Drop all models that this process keeps."""
    _cache.clear()


def prepare_torch(ctx: WorkContext) -> tuple[Any, str]:
    """Return torch and the device, ``cuda`` or ``cpu``, with threads and the share of the card as they were given.

    Raises
    ------
    MissingExtra
        PyTorch is not installed.
    """
    if "torch" not in sys.modules:
        # Threads that spin while they wait starve the neighbors; read once, when OpenMP starts.
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
        os.environ.setdefault("GOMP_SPINCOUNT", "0")
    torch = require("torch", extra="mlip", purpose="for machine-learned potentials")
    torch.set_num_threads(max(1, ctx.threads))
    ctx.used(pytorch=str(torch.__version__))
    if ctx.device != "gpu":
        return torch, "cpu"
    if not torch.cuda.is_available():
        sys.stdout.write("this slot's GPU is simulated, or PyTorch sees none: computed on CPUs\n")
        return torch, "cpu"
    if ctx.gpu_memory_mib:
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, ctx.gpu_memory_mib * 2**20 / total))
    ctx.used(torch=str(torch.__version__))  # by this name the outcome says that a GPU was used
    return torch, "cuda"


def load(model: str, ctx: WorkContext) -> Loaded:
    """Return a potential, from this process's memory where it was loaded before, and record its versions.

    Raises
    ------
    MissingExtra
        Its package or weights are not here, or loading it reached for the network.
    CalculationError
        Of kind ``bad_input`` for a name that means nothing; ``engine_error`` where the weights cannot be read.
    """
    try:
        potential = check_potential(model)
        weights = find_weights(potential)
    except LevelError as error:
        text = f"{error.message} ({error.hint})" if error.hint else error.message
        raise CalculationError(FailureKind.BAD_INPUT, text) from error
    _, device = prepare_torch(ctx)
    digest = digest_of(weights)
    key = (potential.name, digest, device)
    loaded = _cache.pop(key, None)
    if loaded is None:
        loaded = _load(potential, str(weights), digest, device)
    _cache[key] = loaded
    while len(_cache) > KEPT:
        _cache.popitem(last=False)
    name = potential.engine.distribution
    ctx.used(**{name.replace("-", "_"): version(name), "ase": version("ase")})
    ctx.used(potential=f"{potential.name.partition('#')[0]} sha256:{digest}", precision=potential.dtype)
    return loaded


def _load(potential: Potential, weights: str, digest: str, device: str) -> Loaded:
    loader = _LOADERS[potential.kind]
    with memory_failures(), without_network(f"loading {potential.name}"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of accelerators that are not installed, and of old formats of weights
        try:
            calculator, elements, load_module = loader(potential, weights, device)
        except (RuntimeError, ValueError, KeyError, TypeError, AttributeError, EOFError, OSError, ImportError) as error:
            if is_out_of_memory(error) or _says_no_memory(error):
                raise
            text = " ".join(str(error).split())[:300]
            raise CalculationError(
                FailureKind.ENGINE_ERROR,
                f"{potential.engine.distribution} cannot load {weights}: {type(error).__name__}: {text}",
                details={"weights": weights, "sha256": digest},
            ) from error
        except Exception as error:
            # pickle.UnpicklingError and zipfile.BadZipFile, without importing what torch does not need
            if type(error).__name__ not in ("UnpicklingError", "BadZipFile"):
                raise
            raise CalculationError(
                FailureKind.ENGINE_ERROR,
                f"{potential.engine.distribution} cannot load {weights}: it is no file of weights",
                details={"weights": weights, "sha256": digest},
            ) from error
    return Loaded(potential, digest, device, calculator, elements, load_module)


def _sevennet(potential: Potential, weights: str, device: str) -> tuple[Any, frozenset[int] | None, Callable[[], Any]]:
    module = require("sevenn.calculator", extra="mlip", purpose="for SevenNet")
    util = require("sevenn.util", extra="mlip", purpose="for SevenNet")
    calculator = module.SevenNetCalculator(weights, device=device, modal=potential.modal)
    return (
        calculator,
        frozenset(int(number) for number in calculator.type_map),
        lambda: util.load_checkpoint(weights).build_model(),
    )


def _chgnet(potential: Potential, weights: str, device: str) -> tuple[Any, frozenset[int] | None, Callable[[], Any]]:
    model = require("chgnet.model.model", extra="mlip", purpose="for CHGNet").CHGNet
    dynamics = require("chgnet.model.dynamics", extra="mlip", purpose="for CHGNet")

    def network() -> Any:
        # As CHGNet.load reads those that it ships.
        return model.from_file(weights, mlp_out_bias=False, version=potential.stem)

    calculator = dynamics.CHGNetCalculator(
        model=network().to(device), use_device=device, check_cuda_mem=False, on_isolated_atoms="error"
    )
    return calculator, frozenset(range(1, 95)), network


def _mace(potential: Potential, weights: str, device: str) -> tuple[Any, frozenset[int] | None, Callable[[], Any]]:
    module = require("mace.calculators", extra="mlip", purpose="for MACE")

    def build() -> Any:
        return module.MACECalculator(model_paths=weights, device=device, default_dtype=potential.dtype)

    calculator = build()
    return calculator, frozenset(int(z) for z in calculator.z_table.zs), lambda: build().models[0]


def _orb(_: Potential, weights: str, device: str) -> tuple[Any, frozenset[int] | None, Callable[[], Any]]:
    pretrained = require("orb_models.forcefield.pretrained", extra="mlip", purpose="for Orb")
    module = None
    for name in ("orb_models.forcefield.inference.calculator", "orb_models.forcefield.calculator"):
        with contextlib.suppress(ImportError):
            module = __import__(name, fromlist=["ORBCalculator"])
            break
    if module is None:
        raise ImportError("orb_models has no calculator where it is looked for")

    def network() -> Any:
        return pretrained.orb_v3_conservative_inf_omat(
            weights_path=weights, device=device, precision="float32-high", compile=False
        )

    made = network()
    # Newer versions give an adapter with the network.
    parts = made if isinstance(made, tuple) else (made,)
    return module.ORBCalculator(*parts, device=device), None, network


def _mattersim(_: Potential, weights: str, device: str) -> tuple[Any, frozenset[int] | None, Callable[[], Any]]:
    forcefield = require("mattersim.forcefield", extra="mlip", purpose="for MatterSim")

    def network() -> Any:
        return forcefield.Potential.from_checkpoint(load_path=weights, device=device, load_training_state=False)

    return forcefield.MatterSimCalculator(potential=network(), device=device), None, network


_LOADERS: dict[str, Callable[[Potential, str, str], tuple[Any, frozenset[int] | None, Callable[[], Any]]]] = {
    "7net": _sevennet,
    "chgnet": _chgnet,
    "mace": _mace,
    "orb": _orb,
    "mattersim": _mattersim,
}


def _batch_model(loaded: Loaded) -> Any:
    potential = loaded.potential
    if not potential.engine.batched:
        raise CalculationError(
            FailureKind.BAD_INPUT,
            f"{potential.name} cannot relax many frameworks at once: torch-sim is used with 7net and mace; relax them one "
            "by one, or choose 7net-0",
        )
    torch = require("torch", extra="mlip")
    with memory_failures(), without_network(f"loading {potential.name}"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        require("torch_sim", extra="mlip", purpose="to relax many frameworks at once")
        network = loaded.load_module()
        device = torch.device(loaded.device)
        if potential.kind == "mace":
            module = require("torch_sim.models.mace", extra="mlip")
            return module.MaceModel(model=network, device=device, dtype=getattr(torch, potential.dtype))
        calculator = require("sevenn.calculator", extra="mlip")
        if not hasattr(calculator, "torch_script_type"):
            # torch-sim 0.3 imports a name that sevenn 0.13 no longer has, only to tell TorchScript models from others.
            calculator.torch_script_type = torch.jit.RecursiveScriptModule  # type: ignore[attr-defined]
        module = require("torch_sim.models.sevennet", extra="mlip")
        return module.SevenNetModel(model=network, modal=potential.modal, device=device)


def _says_no_memory(error: BaseException) -> bool:
    return isinstance(error, RuntimeError) and any(word in str(error) for word in _NO_MEMORY)


@contextlib.contextmanager
def memory_failures() -> Iterator[None]:
    """Turn what PyTorch says where memory does not suffice into a failure of its kind, whatever class it has."""
    try:
        yield
    except RuntimeError as error:
        if not (_says_no_memory(error) or is_out_of_memory(error)):
            raise
        raise CalculationError(
            FailureKind.OUT_OF_MEMORY, f"PyTorch ran out of memory: {' '.join(str(error).split())[:300]}"
        ) from error
