"""Small calculations that workers run in the cluster's tests."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from grafico.calculations import CalculationError, FailureKind, Model, Resources, WorkContext, calculation
from grafico.errors import MissingExtra


class Number(Model):
    value: float = 0.0
    tag: str = ""
    seconds: float = 0.0
    file: str = ""


class Answer(Model):
    value: float
    text: str = ""
    pid: int = 0


@calculation(version="1", resources=Resources(memory_mib=500, walltime_s=60))
def double(value: Number, ctx: WorkContext) -> Answer:
    return Answer(value=2 * value.value, pid=os.getpid())


@calculation(version="1", resources=Resources(memory_mib=500, walltime_s=60))
def sleep(value: Number, ctx: WorkContext) -> Answer:
    time.sleep(value.seconds)
    return Answer(value=value.value, pid=os.getpid())
