"""A descriptor set for tests, as `protoc --include_imports --descriptor_set_out` would make it."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, text_format

from skerry.protocol.portal.mapping.protobuf_types import ProtobufTypes

_BASE = """
name: "fleet/base.proto" package: "fleet" syntax: "proto2"
message_type {
  name: "Position"
  field { name: "lat" number: 1 label: LABEL_REQUIRED type: TYPE_DOUBLE }
  field { name: "lon" number: 2 label: LABEL_REQUIRED type: TYPE_DOUBLE }
}
enum_type {
  name: "Mode"
  value { name: "IDLE" number: 0 } value { name: "SURVEY" number: 4 }
  value { name: "LOST" number: -1 }
}
"""
_REPORT = """
name: "fleet/report.proto" package: "fleet" syntax: "proto2" dependency: "fleet/base.proto"
message_type {
  name: "Report"
  field { name: "name" number: 1 label: LABEL_REQUIRED type: TYPE_STRING }
  field { name: "position" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE
          type_name: ".fleet.Position" }
  field { name: "track" number: 3 label: LABEL_REPEATED type: TYPE_MESSAGE
          type_name: ".fleet.Position" }
  field { name: "mode" number: 4 label: LABEL_OPTIONAL type: TYPE_ENUM type_name: ".fleet.Mode" }
  field { name: "depths" number: 5 label: LABEL_REPEATED type: TYPE_FLOAT }
  field { name: "raw" number: 6 label: LABEL_OPTIONAL type: TYPE_BYTES }
  field { name: "count" number: 7 label: LABEL_OPTIONAL type: TYPE_SINT64 }
  field { name: "modes" number: 8 label: LABEL_REPEATED type: TYPE_ENUM type_name: ".fleet.Mode" }
  field { name: "is_ok" number: 40 label: LABEL_OPTIONAL type: TYPE_BOOL }
  field { name: "late" number: 100 label: LABEL_OPTIONAL type: TYPE_UINT32 }
}
message_type {
  name: "Tree"
  field { name: "child" number: 1 label: LABEL_REPEATED type: TYPE_MESSAGE
          type_name: ".fleet.Tree" }
}
message_type { name: "Empty" }
"""
_MODERN = """
name: "fleet/modern.proto" package: "fleet" syntax: "proto3"
dependency: "google/protobuf/timestamp.proto"
message_type {
  name: "Status"
  field { name: "id" number: 1 label: LABEL_OPTIONAL type: TYPE_UINT32 }
  field { name: "text" number: 2 label: LABEL_OPTIONAL type: TYPE_STRING }
  field { name: "at" number: 3 label: LABEL_OPTIONAL type: TYPE_MESSAGE
          type_name: ".google.protobuf.Timestamp" }
}
"""


def file_of(text: str) -> descriptor_pb2.FileDescriptorProto:
    return text_format.Parse(text, descriptor_pb2.FileDescriptorProto())


FILES = [file_of(text) for text in (_BASE, _REPORT, _MODERN)]


def descriptor_set() -> bytes:
    made: Any = descriptor_pb2.FileDescriptorSet(file=FILES)
    data: bytes = made.SerializeToString()
    return data


def fleet() -> ProtobufTypes:
    types = ProtobufTypes()
    types.add_set(descriptor_set())
    return types


def message(name: str, text: str = "") -> Any:
    cls = fleet().find(f"fleet.{name}")
    assert cls is not None
    return text_format.Parse(text, cls())
