"""Where the results of real runs come from: PROV-O that can be walked, linked by what was the same to the bit."""

import grafico.chemistry.entities  # noqa: F401 - the classes of what the runs found
from grafico.calculations import ArtifactRef, contents_of
from grafico.knowledge import Execution, KnowledgeBase, validate


def pairs(run, query):
    return {(row["a"], row["b"]) for row in run.knowledge.query(query).values()}


INFORMED = "SELECT ?a ?b { ?e grafico:calculation ?a ; prov:wasInformedBy/grafico:calculation ?b }"


def test_each_calculation_is_informed_by_those_whose_output_it_was_given(ensemble_run):
    found = pairs(ensemble_run, INFORMED)
    assert {
        ("xtb_optimization", "embed_conformers"),
        ("prune_conformers", "xtb_optimization"),
        ("optimization", "prune_conformers"),
        ("tddft", "optimization"),
        ("ensemble_report", "tddft"),
    } <= found
    # Nothing is informed by what came after it.
    order = ["embed_conformers", "xtb_optimization", "prune_conformers", "optimization", "tddft", "ensemble_report"]
    assert all(order.index(b) < order.index(a) for a, b in found)
    reaches = "ASK { ?e grafico:calculation 'tddft' ; prov:wasInformedBy+/grafico:calculation 'embed_conformers' }"
    assert ensemble_run.knowledge.query(reaches).boolean


def test_what_was_found_leads_back_to_the_calculations_that_made_and_used_it(ensemble_run):
    kinds = pairs(
        ensemble_run,
        "SELECT DISTINCT ?a ?b { ?e grafico:calculation ?a ; prov:generated/a ?b FILTER(STRSTARTS(STR(?b), STR(chem:))) }",
    )
    chem = "https://w3id.org/grafico/chemistry#"
    assert {
        ("embed_conformers", f"{chem}ConformerSearch"),
        ("prune_conformers", f"{chem}ConformerSearch"),
        ("optimization", f"{chem}Conformer"),
        ("optimization", f"{chem}DFTCalculation"),
        ("tddft", f"{chem}ExcitedState"),
    } <= kinds
    used = pairs(ensemble_run, "SELECT DISTINCT ?a ?b { ?e grafico:calculation ?a ; prov:used/a ?b }")
    assert ("tddft", f"{chem}Conformer") in used
    assert ("optimization", f"{chem}Conformer") not in used  # it began elsewhere
    files = "ASK { ?t grafico:calculation 'ensemble_report' ; grafico:read/grafico:sha256 ?d . ?u grafico:produced/grafico:sha256 ?d }"
    assert ensemble_run.knowledge.query(files).boolean


def test_the_run_its_software_and_its_routes_are_told(hydrogen_run):
    ask = hydrogen_run.knowledge.query
    agents = "ASK { ?run a grafico:Run, prov:Activity ; prov:wasAssociatedWith [ a prov:SoftwareAgent ; grafico:name 'grafico' ] }"
    assert ask(agents).boolean
    steps = ask(
        "SELECT ?node ?next { ?r a grafico:RouteTaken ; grafico:node ?node ; grafico:successor ?next }"
    ).values()
    assert {"node": "GeometryOptimization", "next": "FrequencyCalculation"} in steps
    (row,) = ask("SELECT ?e { ?e grafico:calculation 'tddft' }").values()
    execution = KnowledgeBase(hydrogen_run.knowledge.folder).fetch(row["e"])
    assert isinstance(execution, Execution)
    (conformer,) = execution.used
    assert conformer.symbols == ("H", "H")
    assert "optimization" in {before.calculation for before in execution.informed_by}
    assert any(agent.name == "pyscf" for agent in execution.agents)


def test_what_runs_persist_satisfies_the_shapes(ensemble_run, hydrogen_run):
    for run in (ensemble_run, hydrogen_run):
        found = validate(run.knowledge)
        assert found.violations == ()
        assert found.unknown == ()
        assert found.entities > 5


def test_contents_are_found_wherever_they_are_and_a_structure_counts_as_a_whole():
    from grafico.atoms import ConceptualAtoms
    from grafico.calculations import Model

    class Part(Model):
        files: dict[str, ArtifactRef]
        atoms: tuple[ConceptualAtoms, ...] = ()
        parts: tuple["Part", ...] = ()
        number: float = 1.0

    one = ConceptualAtoms(symbols=("H",), positions=((0.0, 0.0, 0.1),))
    ref = ArtifactRef(digest="ab" * 32, media_type="application/x-npy", size=3)
    inner = Part(files={}, atoms=(one, one.moved(((0.0, 0.0, 0.2),))))
    found = contents_of(Part(files={"x": ref, "y": ref}, atoms=(one,), parts=(inner,)))
    assert found[:2] == (f"file:{'ab' * 32}", one.content_digest)
    assert len(found) == 3
    # Charge and spin are settings of a calculation; one bit of a coordinate is another structure.
    assert one.model_copy(update={"charge": 1, "multiplicity": 2}).content_digest == one.content_digest
    assert one.moved(((0.0, 0.0, 0.1 + 2**-56),)).content_digest != one.content_digest
    cell = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    assert one.model_copy(update={"cell": cell}).content_digest != one.content_digest
