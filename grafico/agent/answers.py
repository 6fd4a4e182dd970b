"""What becomes of a sentence that was read: the tool that answers it, called with what stands in its form."""

from grafico.agent.ask import Asked, Conversion, Knowing, Looking
from grafico.agent.looking import looking_tools
from grafico.agent.tool import Desk, call
from grafico.calculations import Json
from grafico.errors import BadInput

__all__ = ["answer"]

QUERIES = {
    "molecules": "SELECT DISTINCT ?name ?formula ?inchikey { ?m a chem:Molecule ; rdfs:label ?name . "
    "OPTIONAL { ?m chem:formula ?formula } OPTIONAL { ?m chem:inchikey ?inchikey } FILTER_HERE } ORDER BY ?name",
    "calculations": "SELECT DISTINCT ?name ?kind { ?c a prov:Activity ; a ?kind ; rdfs:label ?name . FILTER_HERE } ORDER BY ?name",
    "spectra": "SELECT DISTINCT ?name ?spectrum { ?spectrum a chem:Spectrum ; rdfs:label ?name . FILTER_HERE } ORDER BY ?name",
    "runs": "SELECT DISTINCT ?name ?run { ?run a grafico:Run ; rdfs:label ?name . FILTER_HERE } ORDER BY ?name",
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
        word = (form.molecule or "").lower().replace("\\", "").replace('"', "")
        narrow = f'FILTER(CONTAINS(LCASE(STR(?name)), "{word}"))' if word else ""
        name, arguments = "query_knowledge", {"query": QUERIES[form.about].replace("FILTER_HERE", narrow)}
    else:
        raise BadInput(asked.question or "there is nothing to answer")
    return name, await call(tools[name], arguments, desk)
