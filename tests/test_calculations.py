"""Calculations: keys, declarations and recovery ladders."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grafico.calculations import (
    ArtifactRef,
    Attempt,
    CalculationError,
    Failure,
    FailureKind,
    Model,
    Provenance,
    Resources,
    Rung,
    Success,
    WorkContext,
    calculation,
    content_key,
    load_calculation,
)
from grafico.errors import BadInput, GraficoError


class Sample(Model):
    count: int = 0
    energy: float = 0.0
    name: str = ""
    points: tuple[tuple[float, float, float], ...] = ()
    flag: bool | None = None
    guess: ArtifactRef | None = None


class Doubled(Model):
    energy: float


@calculation(version="1", resources=lambda value: Resources(cpus=1 + value.count))
def double(value: Sample, ctx: WorkContext) -> Doubled:
    return Doubled(energy=2 * value.energy)


samples = st.builds(
    Sample,
    count=st.integers(-(2**53) + 1, 2**53 - 1),
    energy=st.floats(allow_nan=False, allow_infinity=False),
    name=st.text(alphabet=st.characters(exclude_categories=["Cs"])),
    points=st.lists(st.tuples(*[st.floats(-1e3, 1e3)] * 3)).map(tuple),
    flag=st.none() | st.booleans(),
)


def test_golden_keys_hold_so_that_no_new_default_changes_every_key_unnoticed() -> None:
    artifact = ArtifactRef(digest="0" * 64, media_type="application/x-npy", size=1)
    golden = {
        "46611157f8f4fedf58b71349e79ec9e029c037cdd6897b3f5d232554661e5f59": Sample(),
        "2a793adfe222b82f215a2192ce0b107d29e24b21d9b6a66cf96a81d4612efde2": Sample(
            count=3, energy=-76.25, name="Å", points=((0.0, 1e-7, 1e21),), flag=True, guess=artifact
        ),
    }
    assert [content_key("double", "1", sample) for sample in golden.values()] == list(golden)


@given(samples)
def test_the_same_input_has_the_same_key(sample: Sample) -> None:
    again = Sample.model_validate_json(sample.model_dump_json())
    assert content_key("n", "1", again) == content_key("n", "1", sample)


@given(samples, samples)
def test_another_input_has_another_key(one: Sample, other: Sample) -> None:
    same = one.model_dump(mode="json") == other.model_dump(mode="json")
    assert (content_key("n", "1", one) == content_key("n", "1", other)) is same


@given(samples, st.sampled_from(["count", "energy", "name", "points", "flag"]))
def test_a_change_of_any_field_changes_the_key(sample: Sample, field: str) -> None:
    value: Any = getattr(sample, field)
    changed = {
        "count": lambda: value + 1 if value < 2**53 - 1 else 0,
        "energy": lambda: math.nextafter(value, math.inf) if value < 1e300 else 0.0,
        "name": lambda: value + "x",
        "points": lambda: (*value, (0.0, 0.0, 0.5)),
        "flag": lambda: {None: True, True: False, False: None}[value],
    }[field]()
    assert content_key("n", "1", sample.model_copy(update={field: changed})) != content_key("n", "1", sample)


def test_name_and_version_are_part_of_the_key() -> None:
    keys = {content_key(name, version, Sample()) for name in ("a", "b") for version in ("1", "2")}
    assert len(keys) == 4


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_finite_are_refused(number: float) -> None:
    with pytest.raises(BadInput, match="canonical JSON"):
        content_key("n", "1", Sample(energy=number))


def test_a_declared_calculation_knows_its_types_and_resources() -> None:
    assert (double.name, double.input_type, double.output_type) == ("double", Sample, Doubled)
    assert double.resources(Sample(count=2)).cpus == 3
    assert load_calculation(double.reference) is double


def test_a_reference_to_something_else_is_refused() -> None:
    with pytest.raises(GraficoError, match="no calculation"):
        load_calculation("grafico.units:EV_NANOMETRE")


def test_a_function_without_typed_models_cannot_be_a_calculation() -> None:
    with pytest.raises(TypeError, match="Pydantic"):

        @calculation(version="1")
        def untyped(value: int, ctx: WorkContext) -> int:  # type: ignore[type-var]
            return value


def test_an_outcome_survives_json() -> None:
    success = double.outcome_type(output=Doubled(energy=1.25), key="k", provenance=Provenance(versions={"pyscf": "2"}))
    assert double.outcome_type.model_validate_json(success.model_dump_json()) == success
    failure = Failure(
        kind=FailureKind.CRASH,
        message="ended by a signal",
        signal=11,
        history=(Attempt(number=1, kind=FailureKind.CRASH, message="", resources=Resources()),),
    )
    assert Failure.model_validate_json(failure.model_dump_json()) == failure
    assert (success.ok, failure.ok) == (True, False)
    assert isinstance(success, Success)


@given(st.sampled_from(["none", "slot", "exclusive"]), st.sampled_from([None, "none", "slot", "exclusive"]))
def test_a_rung_never_puts_a_cpu_calculation_on_a_gpu(has: Any, wants: Any) -> None:
    before = Resources(gpu=has, gpu_memory_mib=1000 if has != "none" else 0)
    after = Rung(note="try", gpu=wants, scale_memory=2.0).apply(before)
    assert (after.gpu == "none") is (has == "none" or wants == "none")
    assert after.memory_mib == 2 * before.memory_mib
    if after.gpu == "none":
        assert after.gpu_memory_mib == 0


def test_an_error_of_a_calculation_crosses_a_process_boundary() -> None:
    import pickle

    error = CalculationError(FailureKind.NOT_CONVERGED, "50 steps", details={"gradient": 0.1})
    again = pickle.loads(pickle.dumps(error))
    assert (again.kind, again.message, again.details) == (error.kind, error.message, error.details)


def test_an_input_that_holds_a_set_is_refused_because_its_key_would_change_between_processes() -> None:
    class Inner(Model):
        names: frozenset[str] = frozenset()

    class Outer(Model):
        inner: tuple[Inner, ...] | None = None

    with pytest.raises(TypeError, match=r"Outer.inner.names is a set"):

        @calculation(version="1")
        def unordered(value: Outer, ctx: WorkContext) -> Doubled:
            return Doubled(energy=0.0)


def test_what_runs_without_a_gpu_gets_the_memory_and_the_time_that_it_needs_there() -> None:
    wanted = Resources(
        gpu="slot",
        gpu_memory_mib=4000,
        memory_mib=2000,
        memory_without_gpu_mib=9000,
        walltime_s=60,
        walltime_without_gpu_s=600,
    )
    assert wanted.without_gpu() == Resources(memory_mib=9000, walltime_s=600)
    assert Rung(note="on CPUs", gpu="none").apply(wanted) == Resources(memory_mib=9000, walltime_s=600)
    longer = Rung(note="longer", scale_walltime=3).apply(wanted)
    assert (longer.walltime_s, longer.without_gpu().walltime_s) == (180, 1800)
    assert Resources(memory_mib=3000).without_gpu() == Resources(memory_mib=3000)
