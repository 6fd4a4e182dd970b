"""Routers that ask: a language model, and a chain in which rules stand behind it."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from grafico.calculations import Json
from grafico.control.audit import AuditLog
from grafico.control.client import ModelClient
from grafico.control.prompt import route_messages
from grafico.control.route_gates import route_gates
from grafico.errors import BadAnswer, GraphStopped, MissingExtra, ModelError, ModelUnavailable
from grafico.gates import Ruling
from grafico.graphs.protocols import Answered, RouteQuestion, Router

__all__ = ["ChainRouter", "ModelRouter"]

RETURNS = 2
"""Times that the engine may send an answer of a model back before the next router is asked."""
PATIENT = 3
"""Questions in a row without an answer after which a model is left alone for a while."""
FIRST_REST_S = 30.0
LONGEST_REST_S = 600.0


class ModelRouter:
    """Asks a language model which admissible successor to take.

    Parameters
    ----------
    client
        The model.
    audit
        Where its proposals and what gates made of them are logged.
    """

    name = "model"

    def __init__(self, client: ModelClient, audit: AuditLog | None = None) -> None:
        self.client = client
        self.audit = audit or AuditLog()

    async def choose(self, question: RouteQuestion) -> Mapping[str, Json]:
        """Return what the model proposes, after the gates; the engine validates it and comes back with errors.

        Raises
        ------
        ModelError
            The model cannot be asked, or proposes nothing that passes the gates.
        """
        errors = question.errors
        for _ in range(1 + self.client.settings.corrections):
            asked = question.model_copy(update={"errors": errors})
            answer = await self.client.ask(
                route_messages(asked),
                question.schema_,
                purpose="route",
                lane=question.lane,
                where=question.node,
                repaired=bool(errors),
            )
            value, decisions = self.audit.dispose(
                route_gates(question),
                answer,
                agent=self.client.settings.model,
                asked=f"{question.graph}: after {question.node}, one of "
                + ", ".join(option.successor for option in question.options),
                lane=question.lane,
            )
            refused = [d for d in decisions if d.ruling is Ruling.REFUSE]
            if not refused:
                return Answered(value, by=self.name)
            errors = tuple(decision.reason for decision in refused)
        raise BadAnswer(f"{self.client.settings.model} proposed nothing admissible: {'; '.join(errors)}")


class ChainRouter:
    """Asks one router after another until one answers: a model that is down or spent never costs a lane.

    Parameters
    ----------
    routers
        In order of preference; usually a model, then rules.
    clock
        Seconds that only grow.

    Notes
    -----
    A model that gave no answer to three questions in a row is left alone for half a minute, and twice as long each time
    that it still gives none, up to ten minutes: thousands of lanes must neither wait for it one after another nor
    storm it.
    """

    name = "chain"

    def __init__(self, routers: Sequence[Router], *, clock: Callable[[], float] = time.monotonic) -> None:
        self.routers = tuple(routers)
        self.passed: dict[str, str] = {}
        """Why routers were passed over last, by name."""
        self._clock = clock
        self._silent: Counter[str] = Counter()
        self._rests: dict[str, float] = {}
        self._returned: Counter[tuple[str, str]] = Counter()

    async def choose(self, question: RouteQuestion) -> Mapping[str, Json]:
        """Return the first answer, marked with who gave it.

        Raises
        ------
        GraphStopped
            None could answer; says why each could not.
        """
        reasons: list[str] = []
        at = (question.lane, question.node)
        self._returned[at] = self._returned[at] + 1 if question.errors else 0
        for router in self.routers:
            if self._returned[at] >= RETURNS and router is not self.routers[-1]:
                self.passed[router.name] = f"its answers were refused: {'; '.join(question.errors)}"
                reasons.append(f"{router.name}: {self.passed[router.name]}")
                continue
            if self._clock() < self._rests.get(router.name, 0.0):
                reasons.append(f"{router.name}: left alone for a while: {self.passed[router.name]}")
                continue
            try:
                answer = await router.choose(question)
            except MissingExtra:
                raise
            except (ModelError, GraphStopped) as error:
                self.passed[router.name] = error.message
                reasons.append(f"{router.name}: {error.message}")
                if isinstance(error, ModelUnavailable):
                    self._let_rest(router.name)
                continue
            self._silent[router.name] = 0
            if not question.errors:
                del self._returned[at]
            if not reasons:
                return Answered(answer, by=answer.by if isinstance(answer, Answered) else router.name)
            # Journalled like a model's word: a replay must not ask the model that was down now and is up then.
            marked = Answered(answer, by="stand-in")
            if isinstance(marked.get("reasoning"), str):
                marked["reasoning"] = f"{marked['reasoning']} ({'; '.join(reasons)})"
            return marked
        raise GraphStopped("; ".join(reasons) or "no router is configured")

    def _let_rest(self, name: str) -> None:
        self._silent[name] += 1
        if (more := self._silent[name] - PATIENT) >= 0:
            # Many lanes may find out at once; only the first of them lengthens the rest.
            if self._clock() >= self._rests.get(name, 0.0):
                self._rests[name] = self._clock() + min(LONGEST_REST_S, FIRST_REST_S * 2.0 ** min(more, 10))
            else:
                self._silent[name] -= 1
