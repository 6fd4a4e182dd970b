"""The knowledge base: entities with IRIs, their graph, the embedded store and read-only queries.

A Pydantic model is all that one writes, and nothing of chemistry is needed (``docs/knowledge.md``)::

    class Book(Entity):
        namespace = "https://example.org/library#"
        natural_key = ("isbn",)
        isbn: str
        title: str
        author: Person

    library = KnowledgeBase(Path("library"))
    library.persist(Book(isbn="978-0141439600", title="A Tale of Two Cities", author=dickens))
    library.query("SELECT ?title { ?book <https://example.org/library#title> ?title }").values()
"""

from typing import TYPE_CHECKING

from grafico.knowledge.lazy import reexports

if TYPE_CHECKING:
    from grafico.knowledge.arrays import Array
    from grafico.knowledge.crate import import_crate
    from grafico.knowledge.entity import Entity, entity_classes
    from grafico.knowledge.fields import Iri, Property, Unit
    from grafico.knowledge.files import ArtifactFolder
    from grafico.knowledge.formats import FORMATS, export_rdf
    from grafico.knowledge.importing import Imported, import_file
    from grafico.knowledge.location import KnowledgeWarning, default_folder, default_place, using_store
    from grafico.knowledge.mapper import describe, n_quads
    from grafico.knowledge.opening import Store, open_store
    from grafico.knowledge.persist import DIRECT, Persisted
    from grafico.knowledge.provenance import Execution, RouteTaken, Run, Software, grafico_agent, run_iri, software
    from grafico.knowledge.query import QueryResult, Term
    from grafico.knowledge.remote import RemoteKnowledgeBase
    from grafico.knowledge.run import RunKnowledge
    from grafico.knowledge.schema import schema_of
    from grafico.knowledge.shapes import shapes_of
    from grafico.knowledge.store import KnowledgeBase, Loaded, Rebuilt
    from grafico.knowledge.validation import Validation, Violation, validate
    from grafico.knowledge.vocabulary import PREFIXES, check_iri, expand, shorten

__all__ = [
    "DIRECT",
    "FORMATS",
    "PREFIXES",
    "Array",
    "ArtifactFolder",
    "Entity",
    "Execution",
    "Imported",
    "Iri",
    "KnowledgeBase",
    "KnowledgeWarning",
    "Loaded",
    "Persisted",
    "Property",
    "QueryResult",
    "Rebuilt",
    "RemoteKnowledgeBase",
    "RouteTaken",
    "Run",
    "RunKnowledge",
    "Software",
    "Store",
    "Term",
    "Unit",
    "Validation",
    "Violation",
    "check_iri",
    "default_folder",
    "default_place",
    "describe",
    "entity_classes",
    "expand",
    "export_rdf",
    "grafico_agent",
    "import_crate",
    "import_file",
    "n_quads",
    "open_store",
    "run_iri",
    "schema_of",
    "shapes_of",
    "shorten",
    "software",
    "using_store",
    "validate",
]

# The process that answers a query starts twice as fast without the models.
__getattr__ = reexports(
    __name__,
    {
        "arrays": ("Array",),
        "crate": ("import_crate",),
        "entity": ("Entity", "entity_classes"),
        "files": ("ArtifactFolder",),
        "formats": ("FORMATS", "export_rdf"),
        "importing": ("Imported", "import_file"),
        "fields": ("Iri", "Property", "Unit"),
        "location": ("KnowledgeWarning", "default_folder", "default_place", "using_store"),
        "opening": ("Store", "open_store"),
        "persist": ("DIRECT", "Persisted"),
        "mapper": ("describe", "n_quads"),
        "provenance": ("Execution", "RouteTaken", "Run", "Software", "grafico_agent", "run_iri", "software"),
        "query": ("QueryResult", "Term"),
        "remote": ("RemoteKnowledgeBase",),
        "run": ("RunKnowledge",),
        "schema": ("schema_of",),
        "shapes": ("shapes_of",),
        "store": ("KnowledgeBase", "Loaded", "Rebuilt"),
        "validation": ("Validation", "Violation", "validate"),
        "vocabulary": ("PREFIXES", "check_iri", "expand", "shorten"),
    },
)
