"""Compiles the hot modules where that is possible; everything else stands in pyproject.toml.

The hot modules are plain Python and work as they are. Where a C compiler and the Python headers
are found, mypyc turns them into extension modules of the same names, and Cython does so with the
few that have a twin of its own. Where not, or with SKERRY_PURE=1, the package is installed as it
is, and says so.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import sysconfig
import tempfile
from pathlib import Path

from setuptools import Distribution, Extension, setup
from setuptools.command.build_ext import build_ext

HOT_MODULES = (
    "src/skerry/apps/recorder/group_rows.py",
    "src/skerry/apps/recorder/node_rows.py",
    "src/skerry/client/distributor/dispatch.py",
    "src/skerry/client/distributor/group_driver.py",
    "src/skerry/client/distributor/outgoing.py",
    "src/skerry/client/distributor/delivery_queue.py",
    "src/skerry/client/distributor/router.py",
    "src/skerry/client/distributor/sync.py",
    "src/skerry/client/core/update_intake.py",
    "src/skerry/client/core/liveness.py",
    "src/skerry/client/io/endpoint_opener.py",
    "src/skerry/client/core/frame_reading.py",
    "src/skerry/client/core/send_buffer.py",
    "src/skerry/client/io/session.py",
    "src/skerry/client/core/received_types.py",
    "src/skerry/client/core/node_connection.py",
    "src/skerry/codec/decoder.py",
    "src/skerry/codec/encoder.py",
    "src/skerry/codec/envelope.py",
    "src/skerry/codec/frame.py",
    "src/skerry/codec/heads.py",
    "src/skerry/codec/pieces.py",
    "src/skerry/codec/plans.py",
    "src/skerry/codec/tables.py",
    "src/skerry/engine/dispatch/frame_intake.py",
    "src/skerry/engine/dispatch/cache.py",
    "src/skerry/engine/clients.py",
    "src/skerry/engine/dispatch/dispatcher.py",
    "src/skerry/engine/dispatch/client_queue.py",
    "src/skerry/engine/node.py",
    "src/skerry/engine/delivery/replay_parts.py",
    "src/skerry/engine/delivery/predicate.py",
    "src/skerry/engine/delivery/query.py",
    "src/skerry/engine/delivery/cache_replay.py",
    "src/skerry/engine/services/status_objects.py",
    "src/skerry/engine/dispatch/header_templates.py",
    "src/skerry/engine/dispatch/topics.py",
    "src/skerry/engine/delivery/filtered_subscription.py",
    "src/skerry/protocol/access/client.py",
    "src/skerry/protocol/access/connection.py",
    "src/skerry/protocol/access/header.py",
    "src/skerry/protocol/access/where/like_pattern.py",
    "src/skerry/protocol/access/outgoing.py",
    "src/skerry/protocol/access/header_repeats.py",
    "src/skerry/protocol/access/server.py",
    "src/skerry/protocol/access/wire.py",
    "src/skerry/protocol/deadlines.py",
    "src/skerry/protocol/distributor/connection.py",
    "src/skerry/protocol/distributor/receiving/deliveries.py",
    "src/skerry/protocol/distributor/sending/flow.py",
    "src/skerry/protocol/distributor/receiving/gaps.py",
    "src/skerry/protocol/distributor/sending/history.py",
    "src/skerry/protocol/distributor/sending/packing.py",
    "src/skerry/protocol/distributor/receiving/receiver.py",
    "src/skerry/protocol/distributor/receiving/sender_table.py",
    "src/skerry/protocol/distributor/segments.py",
    "src/skerry/protocol/distributor/sending/sender.py",
    "src/skerry/protocol/distributor/receiving/remote_senders.py",
    "src/skerry/protocol/distributor/sending/resending.py",
    "src/skerry/protocol/distributor/subjects.py",
    "src/skerry/protocol/distributor/receiving/unpacking.py",
    "src/skerry/protocol/distributor/receiving/updates.py",
    "src/skerry/protocol/outbox.py",
    "src/skerry/protocol/patterns.py",
    "src/skerry/recording/rows.py",
    "src/skerry/runtime/clock.py",
    "src/skerry/runtime/udp/multicast.py",
    "src/skerry/runtime/streams/socket_stream.py",
    "src/skerry/runtime/streams/node_server.py",
    "src/skerry/runtime/udp/segmentation.py",
)

LEAVES = ("src/skerry/codec/hot_loops.pyx",)
"""The modules of Cython; beside each lies its plain twin."""

PROBE = """
#include <Python.h>
static struct PyModuleDef probe = {PyModuleDef_HEAD_INIT, "probe", NULL, -1, NULL};
PyMODINIT_FUNC PyInit_probe(void) { return PyModule_Create(&probe); }
"""


def main() -> None:
    os.chdir(Path(__file__).resolve().parent)
    setup(ext_modules=hot_extensions(), cmdclass={"build_ext": ForgivingBuildExt})


def hot_extensions() -> list[Extension]:
    """What is to be compiled here; empty where nothing can or shall be."""
    # setuptools also runs this file to ask questions (metadata, file lists), where compiling
    # would be a waste of half a minute.
    if not {"bdist_wheel", "build", "build_ext", "install"} & set(sys.argv):
        return []
    if os.environ.get("SKERRY_PURE", "") not in ("", "0"):
        notice("SKERRY_PURE is set: nothing is compiled")
        return []
    missing = what_is_missing()
    if missing:
        notice(f"{missing}: the hot modules stay plain Python, which is slower and otherwise equal")
        return []
    return [*compile_to_c(), *compile_leaves()]


def what_is_missing() -> str | None:
    """Why nothing can be compiled here, found out by compiling something small."""
    if importlib.util.find_spec("mypyc") is None:
        return "mypy is not installed"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.c")
        source.write_text(PROBE, encoding="utf-8")
        probe = Extension("probe", [str(source)])
        command = build_ext(Distribution({"name": "probe", "ext_modules": [probe]}))
        command.build_lib = command.build_temp = folder
        try:
            command.ensure_finalized()
            command.run()
        except Exception as error:  # whatever a tool chain may come up with
            headers = Path(sysconfig.get_path("include"), "Python.h")
            if not headers.exists():
                return f"no Python headers ({headers})"
            return f"no working C compiler ({first_line(error)})"
    return None


def compile_to_c() -> list[Extension]:
    from mypyc.build import mypycify

    found = [path for path in HOT_MODULES if Path(path).exists()]
    for path in sorted(set(HOT_MODULES) - set(found)):
        notice(f"{path} is not there and is left out")
    if not found:
        return []
    try:
        extensions: list[Extension] = mypycify(found, opt_level="3", separate=groups(found))
    except SystemExit as error:  # its way to say that the sources have a fault, shown above
        notice(f"mypyc gave up ({error}; see above): the hot modules stay plain Python")
        return []
    return extensions


def groups(paths: list[str]) -> list[tuple[list[str], str]]:
    """Two of about the same size, which two cores compile in half the time of one of all."""
    apart = [path for path in paths if "/distributor/" in path]
    rest = [path for path in paths if path not in apart]
    named = [(rest, "skerry"), (apart, "skerry_distributor")]
    return [(members, name) for members, name in named if members]


def compile_leaves() -> list[Extension]:
    """The twins in Cython. Their C is written into a folder that is thrown away."""
    if importlib.util.find_spec("Cython") is None:
        notice("Cython is not installed: what it would compile stays plain Python")
        return []
    # Loaded this way, since not all of it has types.
    cythonize = importlib.import_module("Cython.Build").cythonize
    extensions = [
        Extension(module_name(path), [path], extra_compile_args=["-O3"]) for path in LEAVES
    ]
    try:
        made: list[Extension] = cythonize(extensions, build_dir="build/cython", quiet=True)
    except Exception as error:  # its way to say that a source has a fault, shown above
        notice(f"Cython gave up ({first_line(error)}; see above): its twins stay plain Python")
        return []
    return made


def module_name(path: str) -> str:
    return ".".join(Path(path).with_suffix("").parts[1:])


class ForgivingBuildExt(build_ext):
    """A compilation that fails leaves the plain modules in the wheel instead of none at all."""

    def run(self) -> None:
        self.parallel = True
        try:
            super().run()
        except Exception as error:
            reason = f"the C compiler failed ({first_line(error)}; see above)"
            notice(f"{reason}: the hot modules stay plain Python")
            for extension in self.extensions:
                Path(self.get_ext_fullpath(extension.name)).unlink(missing_ok=True)
            self.extensions = []


def first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def notice(text: str) -> None:
    print(f"skerry: {text}", file=sys.stderr)


if __name__ == "__main__":
    main()
