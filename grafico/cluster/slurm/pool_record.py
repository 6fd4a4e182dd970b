"""What the elastic fleet remembers of one pool: its hosts, what became of those that failed, and what to tell people."""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from grafico.cluster.fleet import HostView, PoolStatus
from grafico.cluster.layout import WorkerSpec
from grafico.cluster.placement import Pending
from grafico.cluster.placement.needs import END_MARGIN_S
from grafico.cluster.pool import Pool
from grafico.cluster.slurm.commands import HOPELESS, JobState
from grafico.cluster.slurm.scaling import PoolState, Standing
from grafico.cluster.slurm.script import log_of_host
from grafico.errors import ProfileError

if TYPE_CHECKING:
    from grafico.cluster.slurm.host_job import HostJob

__all__ = ["GIVE_UP", "Host", "PoolRecord"]

GIVE_UP = 3
"""Jobs in a row that were refused for good, or ended before their host reported, after which a pool is given up."""

NOT_ITS_FAULT = frozenset({"NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "REVOKED"})

HOLD_S = 2.0
"""After a failure nothing is submitted for so long; twice as long after the next one."""

LONGEST_HOLD_S = 300.0

LATE_S = 120.0
"""A host may have lost so much of its time by the time it reports; another one may be quicker."""

NOTE_S = 120.0
"""A note about a host that was lost is shown for so long."""

LAST_WORDS = 400
"""Characters of a log that are quoted at most."""


@dataclass(eq=False)
class Host:
    """A host that was asked for and is not known to have ended."""

    label: str
    pool: str
    job: "HostJob"
    job_id: str
    heard_at: float
    """When it was submitted, or seen with workers last."""
    up: bool = False
    came_up: bool = False
    ending: bool = False
    ending_since: float = float("inf")
    cancelled_at: float = 0.0
    state: JobState | None = None
    ran_since: float | None = None
    condemned: int = 0
    """Looks in a row at which its reason for waiting was one that does not pass."""


@dataclass(eq=False)
class PoolRecord:
    """One pool.

    Parameters
    ----------
    pool
        As the profile says.
    workers
        Of one host.
    folder
        The cluster's folder, where logs are.
    """

    pool: Pool
    workers: tuple[WorkerSpec, ...]
    folder: Path
    hosts: list[Host] = field(default_factory=list)
    wanted: int = 0
    pending: Sequence[Pending] = ()
    failures: int = 0
    """In a row."""
    ever_up: bool = False
    hold_until: float = 0.0
    problem: str = ""
    """Why the last submission or start came to nothing; empty once a host has reported."""
    noted: tuple[str, float] = ("", 0.0)
    hopeless: bool = False
    lives: deque[float] = field(default_factory=lambda: deque(maxlen=GIVE_UP))
    """Seconds that the last hosts had before them when they reported."""
    ends_with: tuple[str, float] = ("", float("inf"))
    """What all hosts end with, and the seconds that it had before it at the start."""
    _waited_at: float = 0.0

    @property
    def name(self) -> str:
        """The pool's name."""
        return self.pool.name

    # -- what is seen ----------------------------------------------------------------------------------------------

    def see(self, views: Mapping[tuple[str, str], HostView], now: float, wall: float) -> None:
        """Note which hosts have workers now."""
        for host in self.hosts:
            view = views.get((self.name, host.label))
            host.up = view is not None
            if view is not None:
                host.heard_at = now
                if not host.came_up:
                    self.lives.append(float("inf") if view.ends_at is None else view.ends_at - wall)
                    host.came_up = self.ever_up = True
                    self.failures, self.problem, self.hold_until, self.hopeless = 0, "", 0.0, False

    @property
    def life(self) -> tuple[str, float]:
        """How long a host can last, by those that came: who has no more, and the seconds.

        One that has a little too little for what waits may only have come late; several in a row tell more.
        """
        longest = max((item.need.walltime_s for item in self.pending), default=0.0) + END_MARGIN_S
        found = max(self.lives, default=float("inf"))
        if longest <= found + (0.0 if len(self.lives) == GIVE_UP else LATE_S):
            return self.ends_with
        return min((f"a host of pool {self.name} has", found), self.ends_with, key=lambda pair: pair[1])

    def note_pending(self, pending: Sequence[Pending], now: float) -> None:
        """Note what waits that this pool could run."""
        self.pending = pending
        if pending:
            self._waited_at = now

    def looked(self, host: Host, state: JobState, now: float) -> None:
        """Note what the queue says of a host's job."""
        host.state = state
        if state.state == "RUNNING" and host.ran_since is None:
            host.ran_since = now
        host.condemned = host.condemned + 1 if state.state == "PENDING" and HOPELESS.search(state.reason) else 0
        if state.ended:
            self._ended(host, state, now)

    def _ended(self, host: Host, state: JobState, now: float) -> None:
        self.hosts.remove(host)
        if host.ending:
            return
        how = state.state + (f" ({state.reason})" if state.reason else "")
        if host.came_up:
            if state.state not in {"COMPLETED", "TIMEOUT"}:
                self.note(f"host {host.label} was lost: job {host.job_id} {how}", now)
        elif state.state in NOT_ITS_FAULT:
            self.note(f"job {host.job_id} {how}", now)
            self.hold_until = now + HOLD_S
        else:
            words = self._last_words(host)
            said = f"job {host.job_id} ended before its host reported: {how}"
            self._failed(
                f"{said}; its log ends with: {words}"
                if words
                else f"{said}; it left no log: do the nodes see {self.folder}?",
                now,
            )

    def failed_to_report(self, host: Host, seconds: float, now: float) -> None:
        """Note that a job ran for so long without its host reporting."""
        words = self._last_words(host)
        said = f"job {host.job_id} ran for {seconds / 60:.0f} min without its host reporting"
        self._failed(f"{said}; its log ends with: {words}" if words else said, now)

    def refused(self, words: str, now: float, *, for_now: bool) -> None:
        """Note that Slurm did not take a job; whether that may pass. Several of one turn are one failure."""
        if now < self.hold_until:
            return
        if for_now:
            self.failures = min(self.failures, GIVE_UP - 2)  # waiting is all that it takes
        elif not self.ever_up:
            self.failures = GIVE_UP
        self._failed(f"Slurm does not take its jobs: {words}", now, fatal=not for_now)

    def condemned(self) -> Host | None:
        """Return a host whose job waits for what will not come, if there is one, and give the pool up."""
        for host in self.hosts:
            if host.condemned >= 2 and host.state is not None and not host.ending:
                self.problem = f"Slurm will not start job {host.job_id} as it is: {host.state.reason}"
                self.hopeless = not any(other.up for other in self.hosts)
                return host
        return None

    def note(self, text: str, now: float) -> None:
        """Have people told for a while."""
        self.noted = (text, now + NOTE_S)

    def _failed(self, problem: str, now: float, *, fatal: bool = True) -> None:
        self.failures += 1
        self.problem = problem
        self.hold_until = now + min(LONGEST_HOLD_S, HOLD_S * 2.0 ** (self.failures - 1))
        self.hopeless = fatal and self.failures >= GIVE_UP and not any(host.up for host in self.hosts)

    def _last_words(self, host: Host) -> str:
        """Return the last lines of a host's log, in one."""
        try:
            with log_of_host(self.folder, self.name, host.label).open("rb") as file:
                file.seek(0, 2)
                file.seek(max(0, file.tell() - 4096))
                lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
        except OSError:
            return ""
        return " / ".join(lines[-3:])[-LAST_WORDS:]

    # -- what is told ----------------------------------------------------------------------------------------------

    def state_for_scaling(
        self, views: Mapping[tuple[str, str], HostView], now: float, wall: float, idle_limit_s: float
    ) -> PoolState:
        """Return the pool as :func:`~grafico.cluster.slurm.scaling.decide` wants it."""
        hosts = []
        for host in self.hosts:
            view = views.get((self.name, host.label))
            if view is None:
                hosts.append(Standing(host.label, ending=host.ending))
                continue
            left = float("inf") if view.ends_at is None else view.ends_at - wall
            hosts.append(Standing(host.label, True, view.busy > 0, view.idle_s, left, host.ending))
        return PoolState(
            name=self.name,
            scale=self.pool.scale,
            workers=self.workers,
            hosts=hosts,
            pending=self.pending,
            quiet_s=now - self._waited_at,
            idle_limit_s=idle_limit_s,
            seen_life_s=self.life[1],
            may_submit=not self.hopeless and now >= self.hold_until,
        )

    def raise_if_refused(self, profile: str) -> None:
        """Say at the start that Slurm does not take the pool's jobs.

        Raises
        ------
        ProfileError
            It does not, and waiting would not help.
        """
        if self.hopeless:
            raise ProfileError(f"profile {profile!r}, pool {self.name!r}: {self.problem}")

    def status(self, blind: str, now: float) -> PoolStatus:
        """Return how it stands, for people; `blind` is why the queue cannot be read."""
        staying = [host for host in self.hosts if not host.ending]
        waiting = [host for host in staying if not host.up]
        parts = []
        if self.problem:
            held = max(0.0, self.hold_until - now)
            after = f" (tried again in {held:.0f} s)" if held and not self.hopeless else ""
            parts.append(self.problem + after)
        if now < self.noted[1]:
            parts.append(self.noted[0])
        reasons: Counter[str] = Counter()
        for host in waiting:
            if host.state is not None and host.state.state == "PENDING":
                reasons[f"queued ({host.state.reason})" if host.state.reason else "queued"] += 1
            elif host.state is not None:
                reasons["lost its workers" if host.came_up else "starting"] += 1
            else:
                reasons["submitted"] += 1
        parts += [f"{count} job{'s' if count > 1 else ''} {what}" for what, count in reasons.items()]
        if waiting and blind:
            parts.append(f"the queue cannot be read: {blind}")
        life_of, life_s = self.life
        return PoolStatus(
            pool=self.name,
            wanted=self.wanted,
            queued=len(waiting),
            up=sum(host.up for host in staying),
            problem="; ".join(parts),
            hopeless=self.hopeless,
            life_s=None if life_s == float("inf") else life_s,
            life_of=life_of,
        )
