"""Compiles the hot modules if possible. All other settings of the build are in pyproject.toml.

The hot modules are Python source that also works uncompiled. If a C compiler and the Python headers
are installed, mypyc compiles them to extension modules of the same names, and Cython compiles the
few modules that have a `.pyx` twin. If not, or with SKERRY_PURE=1, the package is installed
uncompiled, and a notice gives the reason.
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
    "src/skerry/client/core/node_connection.py",
    "src/skerry/client/core/send_buffer.py",
    "src/skerry/client/core/type_route.py",
    "src/skerry/client/core/type_store.py",
    "src/skerry/client/core/update_intake.py",
    "src/skerry/client/distributor/connection_base.py",
    "src/skerry/client/distributor/delivery_queue.py",
    "src/skerry/client/distributor/dispatch.py",
    "src/skerry/client/distributor/group_session.py",
    "src/skerry/client/distributor/publish_buffer.py",
    "src/skerry/client/distributor/router.py",
    "src/skerry/client/distributor/sync.py",
    "src/skerry/client/io/session.py",
    "src/skerry/codec/decoder.py",
    "src/skerry/codec/encoder.py",
    "src/skerry/codec/frame.py",
    "src/skerry/codec/heads.py",
    "src/skerry/codec/pieces.py",
    "src/skerry/codec/plans.py",
    "src/skerry/engine/clients.py",
    "src/skerry/engine/connections/client_output.py",
    "src/skerry/engine/connections/connections.py",
    "src/skerry/engine/connections/output_batches.py",
    "src/skerry/engine/delivery/cache_replay.py",
    "src/skerry/engine/delivery/filtered_subscription.py",
    "src/skerry/engine/delivery/predicate.py",
    "src/skerry/engine/delivery/replay_parts.py",
    "src/skerry/engine/dispatch/cache.py",
    "src/skerry/engine/dispatch/cache_quotas.py",
    "src/skerry/engine/dispatch/client_queue.py",
    "src/skerry/engine/dispatch/dispatcher.py",
    "src/skerry/engine/dispatch/frame_forwarding.py",
    "src/skerry/engine/dispatch/frame_intake.py",
    "src/skerry/engine/dispatch/topics.py",
    "src/skerry/engine/node.py",
    "src/skerry/engine/system/system_core.py",
    "src/skerry/objects/times.py",
    "src/skerry/protocol/access/client.py",
    "src/skerry/protocol/access/connection.py",
    "src/skerry/protocol/access/header.py",
    "src/skerry/protocol/access/header_repeats.py",
    "src/skerry/protocol/access/outgoing.py",
    "src/skerry/protocol/access/server.py",
    "src/skerry/protocol/access/wire.py",
    "src/skerry/protocol/deadlines.py",
    "src/skerry/protocol/distributor/connection.py",
    "src/skerry/protocol/distributor/receiving/deliveries.py",
    "src/skerry/protocol/distributor/receiving/stream_delivery.py",
    "src/skerry/protocol/distributor/receiving/unpacking.py",
    "src/skerry/protocol/distributor/receiving/updates.py",
    "src/skerry/protocol/distributor/sending/announcements.py",
    "src/skerry/protocol/distributor/sending/control_messages.py",
    "src/skerry/protocol/distributor/sending/flow.py",
    "src/skerry/protocol/distributor/sending/history.py",
    "src/skerry/protocol/distributor/sending/packing.py",
    "src/skerry/protocol/distributor/sending/resending.py",
    "src/skerry/protocol/distributor/sending/sender.py",
    "src/skerry/protocol/link/conflation.py",
    "src/skerry/protocol/link/incoming_stream.py",
    "src/skerry/protocol/link/input.py",
    "src/skerry/protocol/link/link.py",
    "src/skerry/protocol/link/message_packing.py",
    "src/skerry/protocol/link/outgoing_stream.py",
    "src/skerry/protocol/link/output.py",
    "src/skerry/protocol/link/packets.py",
    "src/skerry/protocol/link/peers.py",
    "src/skerry/protocol/link/reader_progress.py",
    "src/skerry/protocol/link/sample_buffer.py",
    "src/skerry/protocol/outbox.py",
    "src/skerry/protocol/rtps/datagram_reader.py",
    "src/skerry/protocol/rtps/datagram_writer.py",
    "src/skerry/protocol/rtps/samples.py",
    "src/skerry/protocol/rtps/submessages.py",
    "src/skerry/recording/rows.py",
    "src/skerry/runtime/streams/node_server.py",
    "src/skerry/runtime/streams/socket_stream.py",
    "src/skerry/runtime/udp/group_driver.py",
    "src/skerry/runtime/udp/multicast.py",
    "src/skerry/runtime/udp/segmentation.py",
)

LEAVES = ("src/skerry/codec/hot_loops.pyx",)
"""The modules that Cython compiles. Each has an uncompiled twin `.py` beside it."""

PROBE = """
#include <Python.h>
static struct PyModuleDef probe = {PyModuleDef_HEAD_INIT, "probe", NULL, -1, NULL};
PyMODINIT_FUNC PyInit_probe(void) { return PyModule_Create(&probe); }
"""


def main() -> None:
    os.chdir(Path(__file__).resolve().parent)
    setup(ext_modules=hot_extensions(), cmdclass={"build_ext": ForgivingBuildExt})


def hot_extensions() -> list[Extension]:
    """The extension modules to build. Empty if compilation is impossible or not wanted."""
    # setuptools also runs this file to get metadata and file lists. Compiling for that would waste
    # half a minute.
    if not {"bdist_wheel", "build", "build_ext", "install"} & set(sys.argv):
        return []
    if os.environ.get("SKERRY_PURE", "") not in ("", "0"):
        notice("SKERRY_PURE is set: nothing is compiled")
        return []
    missing = missing_for_compilation()
    if missing:
        notice(f"{missing}: the hot modules stay uncompiled, which is slower but equally correct")
        return []
    return [*compile_to_c(), *compile_leaves()]


def missing_for_compilation() -> str | None:
    """The reason why modules cannot be compiled, found by compiling a small file, or None."""
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
        except Exception as error:  # tool chains raise errors of any type
            headers = Path(sysconfig.get_path("include"), "Python.h")
            if not headers.exists():
                return f"no Python headers ({headers})"
            return f"no working C compiler ({first_line(error)})"
    return None


def compile_to_c() -> list[Extension]:
    from mypyc.build import mypycify

    found = [path for path in HOT_MODULES if Path(path).exists()]
    for path in sorted(set(HOT_MODULES) - set(found)):
        notice(f"{path} does not exist and is skipped")
    if not found:
        return []
    try:
        extensions: list[Extension] = mypycify(found, opt_level="3", separate=groups(found))
    except SystemExit as error:  # mypyc has printed the errors in the sources
        notice(f"mypyc failed ({error}; see above): the hot modules stay uncompiled")
        return []
    return extensions


def groups(paths: list[str]) -> list[tuple[list[str], str]]:
    """Two groups of about equal size: the node with the codec, and clients and datagrams. Two cores
    compile them in half the time of one group."""
    parts = ("/client/", "/distributor/", "/link/", "/rtps/", "/system/", "/udp/")
    others = [path for path in paths if any(part in path for part in parts)]
    node = [path for path in paths if path not in others]
    named = [(node, "skerry"), (others, "skerry_others")]
    return [(members, name) for members, name in named if members]


def compile_leaves() -> list[Extension]:
    """Compile the modules of Cython. The C code is written below `build` and not kept."""
    if importlib.util.find_spec("Cython") is None:
        notice("Cython is not installed: its modules stay uncompiled")
        return []
    # Imported by name, because parts of Cython have no type annotations.
    cythonize = importlib.import_module("Cython.Build").cythonize
    extensions = [
        Extension(module_name(path), [path], extra_compile_args=["-O3"]) for path in LEAVES
    ]
    try:
        made: list[Extension] = cythonize(extensions, build_dir="build/cython", quiet=True)
    except Exception as error:  # Cython has printed the errors in the source
        notice(f"Cython failed ({first_line(error)}; see above): its modules stay uncompiled")
        return []
    return made


def module_name(path: str) -> str:
    return ".".join(Path(path).with_suffix("").parts[1:])


class ForgivingBuildExt(build_ext):
    """If the C compiler fails, the wheel is built with the uncompiled modules."""

    def run(self) -> None:
        self.parallel = True
        try:
            super().run()
        except Exception as error:
            reason = f"the C compiler failed ({first_line(error)}; see above)"
            notice(f"{reason}: the hot modules stay uncompiled")
            for extension in self.extensions:
                Path(self.get_ext_fullpath(extension.name)).unlink(missing_ok=True)
            self.extensions = []


def first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def notice(text: str) -> None:
    print(f"skerry: {text}", file=sys.stderr)


if __name__ == "__main__":
    main()
