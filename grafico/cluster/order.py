"""What travels between controller, worker and a calculation's process: an order and a reply, both JSON."""

from collections.abc import Mapping

from pydantic import Field

from grafico.calculations import CalculationTask, Failure, Json, Model

__all__ = ["LeaseOrder", "Order", "Reply"]


class Order(Model):
    """One attempt at a calculation as a worker hands it to a process."""

    task: CalculationTask
    run: str = Field(description="the run's folder")
    scratch: str = Field(description="folder that the process may fill; the worker removes it")
    worker: str = Field(description="name of the worker")
    threads: int = Field(ge=1)
    device: str = Field(description="cpu or gpu")
    gpu_memory_mib: int = Field(ge=0, description="share of the GPU's memory")
    preload: tuple[str, ...] = ()
    code: str = Field(default="", description="folder that the calculation's module is in, if it is not installed")


class LeaseOrder(Model):
    """Which slots of which GPU a process has to lease before it may calculate."""

    folder: str
    gpu: str
    slots: int = Field(ge=1, description="how many the GPU has")
    whole: bool
    need_mib: int = Field(ge=0)
    card_mib: int = Field(ge=0)


class Reply(Model):
    """What came of it. A success stands in the outcome store under its key before this is sent."""

    key: str
    digest: str = Field(default="", description="SHA-256 of the committed outcome")
    outcome: Mapping[str, Json] | None = Field(default=None, description="the success, if it is small")
    failure: Failure | None = None
    seconds: float = Field(default=0.0, ge=0, description="time of the calculation itself")
    worker: str = Field(default="", description="host and process that ran it")
    spent: bool = Field(default=False, description="whether the process should not be given another calculation")
