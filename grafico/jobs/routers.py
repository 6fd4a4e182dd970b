"""Who routes a run: rules, or a language model with rules behind it; and what that took."""

from grafico.calculations import Json
from grafico.control import AuditLog, ChainRouter, Ledger, ModelClient, ModelRouter, RuleRouter, read_calls
from grafico.control.ledger import total, totals
from grafico.graphs import Router
from grafico.jobs.schema import Job
from grafico.runs import Run, RunPaths

__all__ = ["close_router", "cost_of", "router_notes", "router_of"]


def router_of(job: Job, run: Run) -> Router:
    """Return the router that a job asks for; a model's calls and proposals are written into the run's folder."""
    if job.router == "rules":
        return RuleRouter()
    client = ModelClient(job.router, Ledger(run.paths.ledger, job.router.budget))
    return ChainRouter([ModelRouter(client, AuditLog(run.paths.audit)), RuleRouter()])


def _model_of(router: Router) -> ModelRouter | None:
    routers = router.routers if isinstance(router, ChainRouter) else (router,)
    return next((one for one in routers if isinstance(one, ModelRouter)), None)


def router_notes(router: Router) -> list[str]:
    """Return what people should know of a router that was used: why it was passed over, how its model is held."""
    model = _model_of(router)
    notes = list(model.client.notes) if model is not None else []
    if isinstance(router, ChainRouter):
        notes += [f"rules stood in for the {name} router: {why}" for name, why in router.passed.items()]
    return notes


async def close_router(router: Router) -> None:
    """Close a model's connections."""
    model = _model_of(router)
    if model is not None:
        await model.client.close()


def cost_of(paths: RunPaths) -> dict[str, Json] | None:
    """Return what asking models took in a run: in all, by lane, purpose and model; ``None`` if none was asked."""
    calls = read_calls(paths.ledger)
    if not calls:
        return None
    groups = {f"by_{name}": totals(calls, name) for name in ("purpose", "model", "lane")}
    return {
        "total": total(calls).model_dump(mode="json"),
        **{by: {name: one.model_dump(mode="json") for name, one in sums.items()} for by, sums in groups.items()},
    }
