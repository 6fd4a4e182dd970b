"""Which model chose what, and why: asked of the knowledge base after a run that a model routed."""

import json
import re
import sys
from pathlib import Path

import pytest
from real_runs import HYDROGEN, finished

from grafico.knowledge import validate

sys.path.insert(0, str(Path(__file__).parents[1] / "control"))

pytest.importorskip("litellm")
pytest.importorskip("pyscf")

from scripted_server import ScriptedServer, says

ROUTER = """
router:
  model: openai/local
  api_base: {base}
  key_variable: TEST_ROUTER_KEY
"""


def obeys(handler, body):
    question = "\n".join(message["content"] for message in body["messages"])
    wanted = re.search(r"own rule would take: (\S+)", question)[1]
    answer = {"successor": wanted, "parameters": {}, "reasoning": "it is asked for", "confidence": 0.75}
    says(json.dumps(answer))(handler, body)


def test_which_model_chose_what_and_why(tmp_path, monkeypatch):
    monkeypatch.setenv("TEST_ROUTER_KEY", "sk-of-a-test")
    with ScriptedServer(obeys) as server:
        run = finished(tmp_path, HYDROGEN + ROUTER.format(base=server.base))
    rows = run.knowledge.query(
        """
        SELECT DISTINCT ?model ?why ?sure {
          ?route a grafico:RouteTaken ; dcterms:isPartOf ?run ; grafico:chosenBy "model" ; grafico:model ?model ;
                 grafico:node ?node ; grafico:successor ?next ; grafico:reasoning ?why ; grafico:confidence ?sure
        }
        """
    ).values()
    assert rows == [{"model": "openai/local", "why": "it is asked for", "sure": 0.75}]
    unnamed = "ASK { ?r grafico:chosenBy ?by OPTIONAL { ?r grafico:model ?m } FILTER((?by = 'model') != BOUND(?m)) }"
    assert not run.knowledge.query(unnamed).boolean
    assert validate(run.knowledge).violations == ()
