"""Twenty sentences: each ends in a job that validates, in an answer, or in a question, whatever a model wrote.

``recorded_forms.json`` holds what real small models filled in, as they did; the gates are the real ones.
"""

import asyncio
import json
from pathlib import Path

import pytest

pytest.importorskip("litellm")
pytest.importorskip("rdkit")
pytest.importorskip("pyscf")

from grafico.agent.ask import Reader
from grafico.bench.sentences import GivenForms, is_right, meaning_of, read_sentences
from grafico.control import Ledger, ModelClient, ModelSettings
from grafico.control.local import KEY_VARIABLE
from tests.local_model import served

SENTENCES = read_sentences()
RECORDED = json.loads((Path(__file__).parent / "recorded_forms.json").read_text(encoding="utf-8"))
ENDS = {"compute", "convert_units", "inspect_run", "ask_knowledge", "question"}
AS_MEASURED = {"gates alone": 20, **{name: one["right_with_gates"] for name, one in RECORDED.items()}}
"""Sentences that come out right. A floor: rates may rise with better gates, and never fall unseen."""


async def _meant(sentence, forms):
    return await meaning_of(await Reader(forms).read(sentence))


def outcome(sentence: str, forms) -> dict:
    return asyncio.run(_meant(sentence, forms))


def forms_of(name: str, sentence: str):
    return None if name == "gates alone" else GivenForms(RECORDED[name]["forms"][sentence])


def test_the_sentences_are_twenty_and_of_many_kinds():
    assert len(SENTENCES) == 20
    kinds = {one["want"].get("kind", "either") for one in SENTENCES}
    assert kinds == {"compute", "convert_units", "inspect_run", "ask_knowledge", "question", "either"}
    for one in RECORDED.values():
        assert set(one["forms"]) == {item["say"] for item in SENTENCES}


@pytest.mark.parametrize("name", AS_MEASURED)
def test_every_sentence_ends_in_a_job_that_validates_or_in_a_question(name):
    right = 0
    for item in SENTENCES:
        meant = outcome(item["say"], forms_of(name, item["say"]))
        assert meant["kind"] in ENDS, (item["say"], meant)
        if item["want"].get("kind") == "question":
            assert meant["kind"] == "question", (item["say"], meant)
            assert meant["question"]
        right += is_right(meant, item["want"])
    assert right >= AS_MEASURED[name]


def test_a_job_is_wrong_as_soon_as_one_particular_is():
    sentence = next(item for item in SENTENCES if item["say"].startswith("single point energy"))
    meant = outcome(sentence["say"], None)
    assert is_right(meant, sentence["want"])
    for name, other in (("charge", 1), ("solvent", "water"), ("basis", "def2-svp"), ("tasks", ["optimize"])):
        assert not is_right({**meant, name: other}, sentence["want"])


@pytest.mark.slow
def test_a_real_small_model_ends_in_a_job_or_a_question_as_well():
    with served() as base:
        settings = ModelSettings(
            model="openai/local", api_base=base, key_variable=KEY_VARIABLE, timeout_s=200, patience_s=200, tries=1,
            corrections=0, max_tokens=120,
        )  # fmt: skip

        async def read_all():
            client = ModelClient(settings, Ledger())
            try:
                return [await _meant(item["say"], client) for item in (SENTENCES[2], SENTENCES[7])]
            finally:
                await client.close()

        job, question = asyncio.run(read_all())
    assert job["kind"] == "compute"
    assert job["tasks"] == ["single_point"]
    assert question["kind"] == "question"
