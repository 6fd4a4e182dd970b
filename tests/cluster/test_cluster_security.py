"""Who can reach a local cluster, and the leases."""

import asyncio
import fcntl
import os
import threading
import time

import calculations_for_tests as cases
import psutil
import pytest
from calculations_for_tests import Number

from grafico.cluster import Pool, Profile
from grafico.cluster.leases import Lease, lease_folder
from grafico.errors import ProfileError


def listening() -> list[tuple[str, int]]:
    me = psutil.Process()
    found = []
    for process in [me, *me.children(recursive=True)]:
        for connection in process.net_connections(kind="all"):
            if connection.status == psutil.CONN_LISTEN:
                found.append((connection.laddr.ip, connection.laddr.port))
    return found


def test_all_sockets_listen_on_the_loopback_and_none_on_the_usual_port(on_cluster, task):
    async def use(cluster):
        await cluster.run(task(cases.double, Number()))
        assert cluster.dashboard_link is None
        return await asyncio.to_thread(listening)

    found = on_cluster(use, Profile(name="two", pools=(Pool(name="cpu", cpus=2, memory_mib=4000),)))
    assert len(found) == 2  # the scheduler and its worker, for each other; nothing that speaks HTTP
    assert {host for host, _ in found} == {"127.0.0.1"}
    assert 8787 not in {port for _, port in found}


def test_the_folder_of_leases_is_private_or_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAFICO_LEASES", str(tmp_path / "leases"))
    folder = lease_folder()
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o755)
    with pytest.raises(ProfileError, match=r"only you can use.*set GRAFICO_LEASES"):
        lease_folder()


def test_a_run_is_refused_before_it_begins_where_others_hold_the_folder_of_leases(tmp_path, monkeypatch, on_cluster):
    (tmp_path / "leases").mkdir(mode=0o755)
    monkeypatch.setenv("GRAFICO_LEASES", str(tmp_path / "leases"))
    pool = Pool(name="gpu", gpus=1, simulated=True, gpu_memory_mib=900, cpus=3, memory_mib=4000)
    with pytest.raises(ProfileError, match="cannot be leased"):
        on_cluster(None, Profile(name="one", pools=(pool,)))


def test_three_leases_fit_and_the_fourth_waits(tmp_path):
    def take(whole=False, need=0):
        return Lease.take(tmp_path, "GPU/1", slots=3, whole=whole, need_mib=need, card_mib=900)

    held = [take(need=300) for _ in range(3)]
    assert sorted(lease.slots[0] for lease in held) == [0, 1, 2]
    order: list[str] = []
    whole = threading.Thread(target=lambda: (keep.append(take(whole=True)), order.append("whole")))
    keep: list[Lease] = []
    whole.start()
    time.sleep(0.2)
    small = threading.Thread(target=lambda: (keep.append(take(need=10)), order.append("small")))
    small.start()
    time.sleep(0.2)
    assert order == []
    held[1].release()
    time.sleep(0.2)
    assert order == []  # the exclusive one came first, and waits for all three
    held[0].release()
    held[2].release()
    whole.join(10)
    assert order == ["whole"]
    assert keep[0].slots == [0, 1, 2]
    keep[0].release()
    small.join(10)
    assert order == ["whole", "small"]
    keep[1].release()


def test_leases_add_up_the_memory_of_the_card(tmp_path):
    def take(need):
        return Lease.take(tmp_path, "card", slots=3, whole=False, need_mib=need, card_mib=900)

    first = take(600)
    taken: list[Lease] = []
    waiting = threading.Thread(target=lambda: taken.append(take(400)))
    waiting.start()
    time.sleep(0.2)
    assert taken == []
    first.release()
    waiting.join(10)
    assert taken[0].slots == [0]
    taken[0].release()


def test_a_lease_dies_with_its_holder(tmp_path):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        Lease.take(tmp_path, "card", slots=1, whole=False, need_mib=1, card_mib=9)
        os.write(writer, b"!")
        time.sleep(60)
        os._exit(0)
    os.read(reader, 1)
    slot = os.open(tmp_path / "gpu-card.slot-0", os.O_RDWR)
    with pytest.raises(BlockingIOError):
        fcntl.flock(slot, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.kill(child, 9)
    os.waitpid(child, 0)
    fcntl.flock(slot, fcntl.LOCK_EX | fcntl.LOCK_NB)
    for handle in (reader, writer, slot):
        os.close(handle)
