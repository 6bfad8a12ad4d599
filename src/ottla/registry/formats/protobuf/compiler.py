"""Compiles .proto files with protoc, in this process, to check them and to get their descriptors.

protoc reads files. It gets a temporary folder that holds exactly the files of the closure, and no other path:
an import can name nothing else. Its errors come as objects, not on stderr.
"""

from __future__ import annotations

import ast
import re
import tempfile
import warnings
from collections.abc import Mapping
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from ottla.registry.formats.limits import InvalidSchema

MAIN = "default"
_SERIALIZED = re.compile(rb"AddSerializedFile\((b'.*')\)$|AddSerializedFile\((b\".*\")\)$", re.MULTILINE)


def is_safe_name(name: str) -> bool:
    """Return whether an import names a file below the folder: not absolute, no dots, nothing unprintable."""
    path = PurePosixPath(name)
    return (
        0 < len(name) <= 255
        and name.isprintable()
        and "\\" not in name
        and str(path) == name
        and not path.is_absolute()
        and not any(part in ("", ".", "..") for part in name.split("/"))
    )


@cache
def _get_protos() -> Any:
    from grpc_tools import _protoc_compiler

    warnings.filterwarnings("ignore", category=_protoc_compiler.ProtocWarning)
    return _protoc_compiler.get_protos


def compile_descriptors(text: str, imports: Mapping[str, str]) -> bytes:
    """Return the serialized FileDescriptorProto of a file that imports these files; its name is `default`."""
    get_protos = _get_protos()
    main = _unused(imports)
    with tempfile.TemporaryDirectory(prefix="ottla-protoc-") as folder:
        for name, content in {**imports, main: text}.items():
            if not is_safe_name(name):
                raise InvalidSchema(f"'{name[:100]}' is not a valid name of an import")
            file = Path(folder, name)
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(content, encoding="utf-8")
            except OSError as error:  # too long, or both a file and a folder
                raise InvalidSchema(
                    f"'{name[:100]}' is not a valid name of an import: {error.strerror}"
                ) from None
        try:
            generated = get_protos(main.encode(), [folder.encode()])
        except OSError as error:
            raise InvalidSchema(f"Could not write the files of the schema: {error.strerror}") from None
        except Exception as error:  # ProtocErrors, a subclass of Exception, holds what protoc found
            raise InvalidSchema(_describe(error, main)) from None
    return _renamed(_serialized(generated[-1][1]))


def _unused(imports: Mapping[str, str]) -> str:
    name = "default.proto"
    while name in imports:
        name = "_" + name
    return name


def _describe(error: Exception, main: str) -> str:
    found = error.args[0] if error.args and isinstance(error.args[0], list) else []
    lines = []
    for each in found[:10]:
        name, message = _text(each.filename), _text(each.message)
        where = f"{each.line + 1}:{each.column + 1}" if each.line >= 0 else "the file"
        lines.append(f"{where}: {message}" if name == main else f"{name}, {where}: {message}")
    return "Could not compile Protobuf - " + ("; ".join(lines) or str(error)[:300])


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _serialized(code: bytes) -> bytes:
    match = _SERIALIZED.search(code)
    if match is None:
        raise InvalidSchema("Could not compile Protobuf - protoc returned no descriptor")
    value = ast.literal_eval((match.group(1) or match.group(2)).decode("latin-1"))
    assert isinstance(value, bytes)
    return value


def _renamed(serialized: bytes) -> bytes:
    from google.protobuf import descriptor_pb2

    descriptor = descriptor_pb2.FileDescriptorProto.FromString(serialized)
    descriptor.name = MAIN
    renamed: bytes = descriptor.SerializeToString(deterministic=True)
    return renamed
