"""Writes ``testbed/__init__.pyi``, by which editors and type checkers know the library.

The functions ``testbed.NAME_plan`` are made of options classes at run time, so their signatures are
written out here. All other names are imported from the modules that define them. A test compares
the file with what this program writes.

    $ python tools/build_stub.py
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from dataclasses import fields
from functools import cache
from pathlib import Path
from types import ModuleType

import testbed
from testbed.model.options.option import declared

STUB = Path(testbed.__file__).with_suffix(".pyi")
_HEADER = '''# ruff: noqa
"""The names of ``import testbed``, for editors and type checkers.

tools/build_stub.py writes this file.
"""
'''
_BUILTINS = frozenset({"bool", "float", "int", "str", "tuple", "None"})

# The module of each public name. Type checkers do not see it, because of the stub.
_HOMES: dict[str, str] = vars(testbed)["_HOMES"]


def stub_text() -> str:
    """Return the text of the stub."""
    imports = Imports()
    functions = []
    for name in testbed.__all__:
        if name.endswith("_plan"):
            functions.append(_signature(name, imports))
        else:
            imports.add_public(f"testbed.{_HOMES[name]}", name)
    listed = [f'    "{name}",' for name in testbed.__all__]
    names = ["__all__ = [", *listed, "]", "__version__: str", ""]
    return "\n".join([_HEADER, *imports.lines(), "", *names, *functions, ""])


class Imports:
    """The imports of the stub. If two modules define a name, the second one gets a number."""

    def __init__(self) -> None:
        self._modules: dict[str, tuple[str, str]] = {}
        self._public: list[str] = []

    def add(self, module: str, name: str) -> str:
        """Import a name, and return the name under which it is imported."""
        alias = name
        number = 1
        while self._modules.setdefault(alias, (module, name)) != (module, name):
            number += 1
            alias = f"{name}{number}"
        return alias

    def add_public(self, module: str, name: str) -> None:
        """Import a name that is a public name of the library."""
        self._public.append(f"from {module} import {name} as {name}")

    def lines(self) -> list[str]:
        """Return the statements in alphabetical order."""
        lines = list(self._public)
        for alias, (module, name) in self._modules.items():
            imported_name = name if alias == name else f"{name} as {alias}"
            lines.append(f"from {module} import {imported_name}")
        return sorted(lines)


def _signature(name: str, imports: Imports) -> str:
    """Return the definition of a function ``NAME_plan`` in the stub."""
    signature = inspect.signature(getattr(testbed, name))
    options = sys.modules[f"testbed.{_HOMES[name]}"]
    kind = _options_class(options, signature)
    parameters = []
    keyword_only = False
    for parameter in signature.parameters.values():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not keyword_only:
            parameters.append("*")
            keyword_only = True
        annotation = _annotation(kind, parameter.name, imports)
        text = f"{parameter.name}: {annotation}"
        if parameter.default is not inspect.Parameter.empty:
            text += " = ..."
        parameters.append(text)
    plan = signature.return_annotation
    result = imports.add(plan.__module__, plan.__name__)
    arguments = "".join(f"    {parameter},\n" for parameter in parameters)
    return f"def {name}(\n{arguments}) -> {result}: ..."


def _options_class(module: ModuleType, signature: inspect.Signature) -> type:
    """Return the options class of the module that has exactly these fields."""
    names = set(signature.parameters)
    for value in vars(module).values():
        if isinstance(value, type) and hasattr(value, "__dataclass_fields__"):
            if {field.name for field in fields(value)} == names:  # type: ignore[arg-type]
                return value
    raise LookupError(f"{module.__name__} has no options class with {', '.join(sorted(names))}")


def _annotation(kind: type, name: str, imports: Imports) -> str:
    """Return the annotation of a field, and add the imports of its names."""
    owner = next(cls for cls in kind.__mro__ if name in vars(cls).get("__annotations__", {}))
    annotation = owner.__annotations__[name]
    text = annotation if isinstance(annotation, str) else annotation.__name__
    text = text.replace("'", '"')
    field = next(field for field in fields(kind) if field.name == name)  # type: ignore[arg-type]
    if "option" in field.metadata and declared(field).metavar == "NODE":
        text = text.replace("str", "NodeName")
        imports.add("testbed.model.naming.names", "NodeName")
    if field.default is None and "None" not in text:
        text += " | None"
    without_texts = re.sub(r'"[^"]*"', "", text)
    for word in sorted(set(re.findall(r"[A-Za-z_]\w*", without_texts)) - _BUILTINS - {"NodeName"}):
        alias = imports.add(_home(owner.__module__, word), word)
        text = re.sub(rf"\b{word}\b", alias, text)
    return text


@cache
def _home(module: str, name: str) -> str:
    """Return the module that defines a name, from a module that defines or imports it."""
    source = inspect.getsource(sys.modules.get(module) or __import__(module, fromlist=["_"]))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            if name in {alias.name for alias in node.names}:
                if node.module in ("typing", "collections.abc", "pathlib"):
                    return node.module
                return _home(node.module, name)
    return module


if __name__ == "__main__":
    STUB.write_text(stub_text())
    print(f"wrote {STUB}")
