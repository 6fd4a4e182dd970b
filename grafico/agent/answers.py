"""What becomes of a sentence that was read: the tool that answers it, called with what stands in its form."""

from grafico.agent.ask import Asked, resolve
from grafico.agent.looking import looking_tools
from grafico.agent.tool import Desk, call
from grafico.agent.wanted import Conversion, Knowing, Looking
from grafico.calculations import Json
from grafico.errors import BadInput

__all__ = ["answer"]

MOLECULE = "OPTIONAL { ?m rdfs:label ?label } OPTIONAL { ?m chem:inchikey ?key } "
QUERIES = {
    "molecules": "SELECT DISTINCT (COALESCE(?label, ?smiles, ?formula) AS ?molecule) ?formula ?charge ?key "
    f"{{ ?m a chem:Molecule ; chem:formula ?formula ; chem:charge ?charge . {MOLECULE}"
    "OPTIONAL { ?m chem:smiles ?smiles } FILTER_HERE } ORDER BY ?molecule",
    "calculations": "SELECT DISTINCT (COALESCE(?label, ?formula) AS ?molecule) ?level ?energy ?optimized ?verified ?calculation "
    "{ ?calculation a chem:QuantumCalculation ; chem:conformer/chem:molecule ?m ; chem:level/rdfs:label ?level ; chem:energy ?energy . "
    f"?m chem:formula ?formula . {MOLECULE}OPTIONAL {{ ?calculation chem:optimized ?optimized }} "
    "OPTIONAL { ?calculation chem:verified ?verified } FILTER_HERE } ORDER BY ?molecule ?level ?energy",
    "spectra": "SELECT DISTINCT ?spectrum ?level ?maximum_nm "
    f"{{ ?s a chem:AbsorptionSpectrum ; rdfs:label ?spectrum ; chem:molecule ?m . {MOLECULE}"
    "OPTIONAL { ?s chem:level/rdfs:label ?level } OPTIONAL { ?s chem:maximumWavelength ?maximum_nm } FILTER_HERE } "
    "ORDER BY ?spectrum",
    "runs": "SELECT DISTINCT ?run ?graph ?status "
    "{ ?r a grafico:Run ; grafico:name ?run . OPTIONAL { ?r grafico:graph ?graph } OPTIONAL { ?r grafico:status ?status } "
    f"OPTIONAL {{ ?r prov:generated/chem:conformer?/chem:molecule ?m . {MOLECULE}}} FILTER_HERE }} ORDER BY ?run",
}


async def answer(asked: Asked, desk: Desk) -> tuple[str, Json]:
    """Answer what needs no calculation.

    Returns
    -------
    The tool that was called, and what it said.
    """
    tools = {tool.name: tool for tool in looking_tools()}
    form = asked.form
    if isinstance(form, Conversion):
        name, arguments = "convert_units", form.model_dump()
    elif isinstance(form, Looking):
        name = "explain_lane" if form.about == "story" else "show_run"
        arguments = {"run": form.run}
    elif isinstance(form, Knowing):
        narrow = _narrow(form.molecule) if form.molecule else ""
        name, arguments = "query_knowledge", {"query": QUERIES[form.about].replace("FILTER_HERE", narrow)}
    else:
        raise BadInput(asked.question or "there is nothing to answer")
    return name, await call(tools[name], arguments, desk)


def _narrow(molecule: str) -> str:
    """Return the condition that something is about a molecule.

    By its InChIKey, where a name or a SMILES tells it: methanol has ethanol in its name. What has no key, as radicals and
    large structures, is known by its label.
    """
    word = molecule.lower().replace("\\", "").replace('"', "")
    key = _key(molecule)
    if key is None:
        return f'FILTER(CONTAINS(LCASE(STR(?label)), "{word}"))'
    return f'FILTER(?key = "{key}" || (!BOUND(?key) && LCASE(STR(?label)) = "{word}"))'


def _key(molecule: str) -> str | None:
    from grafico.chemistry.identity import identify
    from grafico.chemistry.molecules import smiles_of_name

    which, question = resolve(molecule)
    if question:
        return None
    return identify(smiles=smiles_of_name(which.name) if which.name else which.smiles).inchikey
