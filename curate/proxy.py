"""Inside the sandbox, both ends of a wire between a test script and the program that it tests, each in a sandbox of its own.

Never imported by ``curate``; ``inside.py`` runs it in place of a program. As ``serve`` it loads the program and answers requests;
as ``test`` it runs the test script, in which ``solution`` is a stand-in whose every use is a request. So the program sees the
arguments of a call and never the assertion around it. Plain values cross as JSON with marks for tuples, sets, bytes and the like;
anything else stays where it is and crosses as a number. Nothing that crosses is ever evaluated or unpickled.

The report of ``test``, on stdout: ``{"tests": n, "failed": index or null, "error": name or null}``.
"""

import builtins
import json
import operator
import os
import sys
from typing import Any

MODULE = type(sys)
KINDS = {"tuple": tuple, "set": set, "frozenset": frozenset}
OPERATORS = {
    f"__{n}__": getattr(operator, f"__{n}__") for n in ("eq", "ne", "lt", "le", "gt", "ge", "add", "sub", "mul", "getitem")
}
OPERATORS |= {
    "__len__": len,
    "__contains__": operator.contains,
    "__str__": str,
    "__repr__": repr,
    "__bool__": bool,
    "__hash__": hash,
}
OPERATORS |= {"__instancecheck__": lambda kind, value: isinstance(value, kind)}
OPERATORS |= {"__iter__": list, "__setitem__": operator.setitem, "__delitem__": operator.delitem, "__next__": next, "__abs__": abs}


class UnsupportedError(BaseException):
    """Something that does not go over a wire: no verdict. No Exception, so that a test script does not catch it."""


class GoneError(BaseException):
    """The program has ended."""


class Wire:
    """Values to JSON and back; what is not plain is kept here under a number."""

    def __init__(self, *, keeps: bool) -> None:
        self.keeps = keeps
        self.kept: list[Any] = []
        self.last: list[Any] = []

    def pack(self, value: Any) -> Any:
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return {"float": repr(value)}
        if type(value) is list:
            return [self.pack(v) for v in value]
        if type(value) is dict:
            return {"dict": [[self.pack(k), self.pack(v)] for k, v in value.items()]}
        if type(value).__name__ in KINDS and type(value) in KINDS.values():
            return {type(value).__name__: [self.pack(v) for v in value]}
        if type(value) is bytes:
            return {"bytes": value.hex()}
        if isinstance(value, Stand):
            return {"theirs": object.__getattribute__(value, "_number")}
        if not self.keeps:
            raise UnsupportedError("the test script hands over an object of its own")
        self.kept.append(value)
        return {"mine": len(self.kept) - 1}

    def unpack(self, value: Any, wire: Any) -> Any:
        if isinstance(value, list):
            return [self.unpack(v, wire) for v in value]
        if not isinstance(value, dict):
            return value
        [(kind, inner)] = value.items()
        if kind in KINDS:
            return KINDS[kind](self.unpack(v, wire) for v in inner)
        if kind == "dict":
            return {self.unpack(k, wire): self.unpack(v, wire) for k, v in inner}
        if kind == "float":
            return float(inner)
        if kind == "bytes":
            return bytes.fromhex(inner)
        return self.kept[inner] if kind == "theirs" else Stand(inner, wire)


class Stand:
    """Stands for an object at the other end: every use of it is a request."""

    def __init__(self, number: int, wire: Any) -> None:
        object.__setattr__(self, "_number", number)
        object.__setattr__(self, "_wire", wire)

    def __getattr__(self, name: str) -> Any:
        return self._wire("get", self, [name], {})

    def __setattr__(self, name: str, value: Any) -> None:
        self._wire("set", self, [name, value], {})

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self._wire("call", self, list(args), named)


def _forward(name: str) -> Any:
    def use(self: Any, *args: Any) -> Any:
        if name in ("__eq__", "__ne__") and not isinstance(args[0], Stand):  # an object may call itself equal to anything
            raise UnsupportedError("the test script compares an object of the program with a plain value")
        found = self._wire(name, self, list(args), {})
        return iter(found) if name == "__iter__" else found

    return use


for _name in OPERATORS:
    setattr(Stand, _name, _forward(_name))


def serve(load: Any, program: str) -> None:
    """Load the program, then answer one JSON line with one JSON line."""
    requests, replies = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    module, wire = MODULE("solution"), Wire(keeps=True)
    sys.modules["solution"] = module
    wire.kept.append(module)
    error: BaseException | None = None
    try:
        exec(load(program), module.__dict__)
    except BaseException as found:
        error = found
    for line in requests:
        asked = json.loads(line)
        try:
            if error is not None:
                raise error
            said = {"value": wire.pack(answer(asked, wire))}
            # Arguments that the call changed in place, such as a list that was sorted.
            said["args"] = [wire.pack(a) if type(a) in (list, dict, set) else None for a in wire.last]
        except BaseException as found:
            said = {"raised": [c.__name__ for c in type(found).__mro__], "text": str(found)}
        replies.write(json.dumps(said) + "\n")
        replies.flush()


def answer(asked: Any, wire: Any) -> Any:
    use, on = asked["use"], wire.kept[asked["on"]]
    args = wire.last = [wire.unpack(a, None) for a in asked["args"]]
    if use == "get":
        return getattr(on, args[0])
    if use == "names":
        return [n for n in vars(on) if not n.startswith("_")]
    if use == "set":
        return setattr(on, *args)
    if use == "call":
        return on(*args, **{k: wire.unpack(v, None) for k, v in asked["named"].items()})
    return OPERATORS[use](on, *args)


# --- the test's end ---


class Client:
    """Requests to the program; called by ``Stand``."""

    def __init__(self, requests: int) -> None:
        self.wire = Wire(keeps=False)
        self.requests, self.replies = os.fdopen(requests, "w"), os.fdopen(os.dup(0))

    def __call__(self, use: str, on: Any, args: list[Any], named: dict[str, Any]) -> Any:
        number = on if isinstance(on, int) else object.__getattribute__(on, "_number")
        packed = [self.wire.pack(a) for a in args]
        asked = {"use": use, "on": number, "args": packed, "named": {k: self.wire.pack(v) for k, v in named.items()}}
        try:
            self.requests.write(json.dumps(asked) + "\n")
            self.requests.flush()
            line = self.replies.readline()
        except BrokenPipeError:
            line = ""
        if not line.endswith("\n"):
            raise GoneError
        said = json.loads(line)
        if "raised" in said:
            kind = next(
                k for n in said["raised"] if isinstance(k := getattr(builtins, n, None), type) and issubclass(k, BaseException)
            )
            error = kind.__new__(kind)
            error.args = (said["text"],)
            error.__dict__["names"] = said["raised"]
            raise error
        for mine, theirs in zip(args, said["args"], strict=False):
            replace(mine, None if theirs is None else self.wire.unpack(theirs, self))
        return self.wire.unpack(said["value"], self)


def replace(mine: Any, now: Any) -> None:
    """Give an argument what the program made of it, in place."""
    if now is None or type(now) is not type(mine):
        return
    if isinstance(mine, list):
        mine[:] = now
    elif isinstance(mine, dict | set):
        mine.clear()
        mine.update(now)


class Raises:
    """``pytest.raises``."""

    def __init__(self, expected: Any, match: str | None = None) -> None:
        self.expected, self.match, self.value = expected if isinstance(expected, tuple) else (expected,), match, None

    def __enter__(self) -> "Raises":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        import re

        assert error is not None, "did not raise"
        names = getattr(error, "names", [c.__name__ for c in type(error).__mro__])
        if not any(e.__name__ in names for e in self.expected) or isinstance(error, UnsupportedError | GoneError):
            return False
        assert self.match is None or re.search(self.match, str(error)), "another message"
        self.value = error
        return True


class Approx:
    """``pytest.approx``: 1e-6 relative, 1e-12 absolute."""

    def __init__(self, expected: Any, rel: float | None = None, abs: float | None = None) -> None:  # noqa: A002 - pytest's names
        self.expected, self.rel, self.abs = (
            expected,
            1e-6 if rel is None and abs is None else rel or 0.0,
            1e-12 if abs is None else abs,
        )

    def __eq__(self, other: Any) -> bool:
        want = self.expected
        if isinstance(want, list | tuple):
            return len(want) == len(other) and all(Approx(w, self.rel, self.abs) == o for w, o in zip(want, other, strict=True))
        if isinstance(want, dict):
            return want.keys() == other.keys() and all(Approx(want[k], self.rel, self.abs) == other[k] for k in want)
        return bool(want == other or abs(want - other) <= max(self.rel * abs(want), self.abs))

    __hash__ = None  # type: ignore[assignment]


def parametrize(names: Any, values: Any, **_: Any) -> Any:
    """``pytest.mark.parametrize``: the cases are kept on the function."""
    keys = [n.strip() for n in names.split(",")] if isinstance(names, str) else list(names)
    rows = [dict(zip(keys, v if len(keys) > 1 else (v,), strict=True)) for v in values]

    def mark(function: Any) -> Any:
        before = function.__dict__.get("cases", [{}])
        function.cases = [{**a, **b} for a in before for b in rows]
        return function

    return mark


def pytest_stand() -> Any:
    """What test scripts use of pytest. Fixtures and other marks are not among it: ``UnsupportedError``."""

    class Mark:
        parametrize = staticmethod(parametrize)

    module = MODULE("pytest")
    module.__dict__.update(raises=Raises, approx=Approx, mark=Mark)

    def other(name: str) -> Any:
        raise UnsupportedError(f"the test script uses pytest.{name}")

    module.__dict__["__getattr__"] = other
    return module


def cases_of(space: dict[str, Any]) -> list[Any]:
    """Functions ``test*`` and methods ``test*`` of classes ``Test*``, in their order, with the arguments of their cases."""
    found: list[Any] = []
    for name, value in list(space.items()):
        if isinstance(value, type) and any(c.__name__ == "TestCase" for c in value.__mro__):
            found += [(value(n).debug, {}) for n in dir(value) if n.startswith("test")]
        elif isinstance(value, type) and name.startswith("Test"):
            for method in (m for m in vars(value) if m.startswith("test")):
                found += [(bound(value, method), case) for case in vars(value)[method].__dict__.get("cases", [{}])]
        elif name.startswith("test") and type(value) is type(cases_of):
            found += [(value, case) for case in value.__dict__.get("cases", [{}])]
    return found


def bound(kind: type, method: str) -> Any:
    """A test method on an object of its own, after ``setup_method``."""

    def run(**case: Any) -> None:
        made: Any = kind()
        if hasattr(made, "setup_method"):
            made.setup_method()
        getattr(made, method)(**case)

    return run


def examine(load: Any, script: str) -> None:
    """Run the test script and write the report."""
    out = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    client = Client(int(os.environ["WIRE"]))
    report: dict[str, Any] = {"tests": 0, "failed": None, "error": None}
    try:
        module = MODULE("solution")
        module.__dict__["__getattr__"] = lambda name: client("get", 0, [name], {})
        module.__dict__["__all__"] = client("names", 0, [], {})
        sys.modules |= {"solution": module, "pytest": pytest_stand()}
        space: dict[str, Any] = {"__name__": "test_solution", "__builtins__": builtins}
        exec(load(script), space)
        found = cases_of(space)
        report["tests"] = max(1, len(found))  # a script of bare assertions is one test
        for number, (function, case) in enumerate(found):
            report["failed"] = number
            function(**case)
        report["failed"] = None
    except BaseException as error:
        report["failed"] = report["failed"] or 0
        report["error"] = type(error).__name__
        report["text"] = str(error)[:200]
        unsupported = isinstance(error, TypeError) and ("BaseException" in str(error) or "positional argument" in str(error))
        report["error"] = "UnsupportedError" if unsupported and not hasattr(error, "names") else report["error"]
    os.write(out, json.dumps(report).encode())
    os._exit(0)


if "LOAD" in globals():
    (examine if "WIRE" in os.environ else serve)(LOAD, sys.argv[0])  # type: ignore[name-defined]  # noqa: F821 - put there by inside.py
