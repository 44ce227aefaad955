"""A program for tests: sends random, cut and changed datagrams to some addresses."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from random import Random
from zlib import crc32

_VECTORS = Path(__file__).resolve().parent.parent / "golden" / "rtps"
_CHECK = b"\xf0\x01\x04\0"


def main() -> None:
    """Send as many as the first argument says to the addresses in it."""
    given = json.loads(sys.argv[1])
    rng = Random(given["seed"])
    vectors = [
        bytes.fromhex(json.loads(path.read_text(encoding="utf-8"))["hex"])
        for path in sorted(_VECTORS.glob("*.json"))
    ]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
        own = socket.inet_aton(given["address"])
        sending.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, own)
        for _ in range(given["count"]):
            host, port = rng.choice(given["targets"])
            sending.sendto(_datagram(rng, vectors), (host, port))
    print("done", flush=True)


def _datagram(rng: Random, vectors: list[bytes]) -> bytes:
    kind = rng.random()
    if kind < 0.3:
        return rng.randbytes(rng.randrange(1400))
    data = bytearray(rng.choice(vectors))
    if kind < 0.6:
        return bytes(data[: rng.randrange(len(data))])
    del data[-8:]
    for _ in range(rng.randrange(1, 4)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    data += _CHECK
    return bytes(data) + crc32(bytes(data)).to_bytes(4, "little")


if __name__ == "__main__":
    main()
