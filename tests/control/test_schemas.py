"""Schemas as grammars can hold them."""

import pytest
from pydantic import BaseModel, Field

from grafico.agent.wanted import Wanted
from grafico.control.schemas import for_decoding


class Lists(BaseModel):
    few: list[int] = Field(max_length=6)
    many: list[int] = Field(max_length=5000)


def test_short_lists_keep_their_bound_and_long_ones_do_not():
    fields = for_decoding(Lists.model_json_schema())["properties"]
    assert fields["few"]["maxItems"] == 6
    assert "maxItems" not in fields["many"]


def test_a_model_cannot_list_tasks_for_ever():
    assert for_decoding(Wanted.model_json_schema())["properties"]["tasks"]["maxItems"] == 6


def test_a_parameter_can_be_written_beside_its_own_step_only():
    pytest.importorskip("pyscf")
    from grafico.chemistry.quantum_chemistry import GRAPH
    from grafico.graphs import route_schema

    steps = {"GeometryOptimization": {"max_steps"}, "TDDFT": {"roots"}, "MolecularAnalysis": set()}
    made = for_decoding(route_schema(tuple(GRAPH.by_id[step] for step in steps)))
    allowed = {
        form["properties"]["successor"]["const"]: set(form["properties"]["parameters"]["properties"])
        for form in made["anyOf"]
    }
    assert allowed == steps
    assert not any(form["properties"]["parameters"]["additionalProperties"] for form in made["anyOf"])
