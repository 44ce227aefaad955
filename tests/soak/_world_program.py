"""A program that publishes objects and writes down what it did.

It does a round of operations for each line on stdin, which is a number and a word: `any` for all
operations, `kept` for those that remove nothing, `newer` to go on with a newer definition of its
type, `again` to connect again and publish all its objects as a whole. It answers with the number
when the node has all of it. Its log has a line for each operation, written before it is sent.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import skerry

TEXT = """
struct Spot {{ 1: float64 lat; 2: float64 lon; }}
struct {name} {{
    1: [key] uint32 id;
    2: string name;
    3: float64 speed;
    4: {level} level;
    5: vector<int32> marks;
    6: Spot spot;
    {more}
}}
"""
OLD = {"level": "int16", "more": ""}
NEW = {"level": "int32", "more": "9: string remark;"}
FIELDS = ("name", "speed", "level", "marks", "spot")


class Program:
    def __init__(self, place: str, type_name: str, first_id: int, log: Path, rng: Random) -> None:
        self._place = place
        self._name = type_name
        self._ids = range(first_id, first_id + 6)
        self._log = log.open("a", encoding="utf-8")
        self._rng = rng
        self._objects: dict[int, dict[str, Any]] = {}
        self._round = -1
        self._is_newer = False
        self._connect()

    def _connect(self) -> None:
        text = TEXT.format(name=self._name, **(NEW if self._is_newer else OLD))
        self._types: Any = skerry.define_types(text)
        self._class = getattr(self._types, self._name)
        self._space = skerry.connect(self._place, name=f"{self._name}-program", wait=True)

    def close(self) -> None:
        self._space.close()
        self._log.close()

    def act(self, number: int, word: str) -> None:
        self._round = number
        if word == "newer":
            self._is_newer = True
            self._space.close()
            self._connect()
        if word == "again":
            with suppress(skerry.SkerryError):  # its node is gone
                self._space.close()
            self._connect()
            for id_, values in sorted(self._objects.items()):
                self._publish(id_, dict(values), set(), is_whole=True)
        else:
            for _ in range(self._rng.randint(0, 3)):
                self._operate(may_remove=word != "kept")
        self._space.flush(timeout=30)

    def _operate(self, *, may_remove: bool) -> None:
        id_ = self._rng.choice(self._ids)
        if id_ in self._objects and may_remove and self._rng.random() < 0.15:
            self._write("remove", id_, {}, set())
            self._space.remove(self._class(id=id_))
            del self._objects[id_]
            return
        known = [*FIELDS, "remark"] if self._is_newer else FIELDS
        chosen = [name for name in known if self._rng.random() < 0.4]
        cleared = {name for name in chosen if id_ in self._objects and self._rng.random() < 0.25}
        values = {name: self._value(name) for name in chosen if name not in cleared}
        self._publish(id_, values, cleared)

    def _publish(
        self, id_: int, values: dict[str, Any], cleared: set[str], *, is_whole: bool = False
    ) -> None:
        self._write("whole" if is_whole else "publish", id_, values, cleared)
        given = {
            name: self._types.Spot(**value) if name == "spot" else value
            for name, value in values.items()
        }
        self._space.publish(self._class(id=id_, **given), only={"id", *values, *cleared})
        state = self._objects.setdefault(id_, {})
        state.update(values)
        for name in cleared:
            state.pop(name, None)

    def _value(self, name: str) -> Any:
        rng = self._rng
        if name == "level":
            return rng.choice([-5, 0, 30_000, 100_000 if self._is_newer else 7])
        if name == "marks":
            return [rng.randrange(9) for _ in range(rng.randrange(3))]
        if name == "spot":
            return {"lat": rng.random(), "lon": rng.random()}
        return rng.random() if name == "speed" else rng.choice(["", "a", "Ærø", "b" * 40])

    def _write(self, what: str, id_: int, values: dict[str, Any], cleared: set[str]) -> None:
        row = {"round": self._round, "do": what, "id": id_, "set": values}
        self._log.write(json.dumps({**row, "clear": sorted(cleared)}) + "\n")
        self._log.flush()


def main() -> None:
    place, type_name, first_id, log, seed = sys.argv[1:]
    program = Program(place, type_name, int(first_id), Path(log), Random(int(seed)))
    print("ready", flush=True)
    for line in sys.stdin:
        number, word = line.split()
        program.act(int(number), word)
        print(number, flush=True)
    program.close()


if __name__ == "__main__":
    main()
