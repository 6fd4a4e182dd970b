"""One of several processes that persist at once: ``python persisting.py STORE NAME``; prints what came of it as JSON."""

import json
import sys

from knowledge_models import Named, Thing

from grafico.errors import Conflict
from grafico.knowledge import open_store

COUNTER = "urn:test:counter"
ROUNDS = 4


def main(place: str, name: str) -> None:
    store = open_store(place)
    print("ready", flush=True)
    sys.stdin.readline()
    # Overlapping sets: five things are everybody's, five this process's own, all refer to what is shared.
    for number in range(5):
        shared = Named(name="shared", number=number, remark="as all say")
        store.persist(
            shared, Named(name=name, number=number, parts=[shared]), Thing(iri="urn:test:all", tags={name}, text="")
        )
    # Read, change, write: what somebody else wrote in between must not be lost.
    clashes = 0
    for _ in range(ROUNDS):
        counter = store.fetch(COUNTER)
        while True:
            counter.count += 1
            try:
                store.persist(counter)
                break
            except Conflict:
                clashes += 1
                store.refresh(counter)
    # All want another value of one field, without having looked.
    try:
        store.persist(Named(name="contested", remark=name))
        lost = None
    except Conflict as error:
        (clash,) = error.clashes
        lost = clash.model_dump()
    print(json.dumps({"clashes": clashes, "lost": lost}))


def persist_until_killed(place: str, name: str) -> None:
    """Persist one thing with its parts after the other, and change what is there."""
    store = open_store(place)
    root = Named(name=name)
    for number in range(100_000):
        parts = [Named(name=f"part of {name} {number}", number=part) for part in range(20)]
        root.remark, root.parts = str(number), parts
        store.persist(root, Named(name=f"whole {name}", number=number, parts=parts))
        print(number, flush=True)


if __name__ == "__main__":
    if sys.argv[3:] == ["--until-killed"]:
        persist_until_killed(sys.argv[1], sys.argv[2])
    else:
        main(sys.argv[1], sys.argv[2])
