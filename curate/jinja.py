"""Chat templates are code from the internet: run them, but never let them reach out, hang or eat the memory.

The dialect is that of transformers (immutable jinja2 sandbox, trimmed blocks, loop controls, ``tojson``,
``raise_exception``, ``strftime_now``, ``{% generation %}``). The sandbox of jinja2 forbids attributes and side effects; it
does not bound time or size. So every loop and macro gets a step check (``MAX_STEPS`` steps, ``MAX_SECONDS``), and each
operation that can make text longer than its input is checked before it runs: ``+ * ** % ~``, ``join``, ``replace``,
padding and formatting. A text may have four times the characters of the messages and 4 million more; all texts of one
render 64 times that.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from curate.errors import CurateError

MAX_STEPS: Final = 100_000
MAX_SECONDS: Final = 10.0
_SLACK: Final = 1_000_000
_WIDEST: Final = 10_000
_REMOVED: Final = ("center", "wordwrap", "urlize", "xmlattr", "random", "pprint")
_PADDING: Final = {"ljust", "rjust", "center", "zfill", "expandtabs"}


class _Generation(Extension):
    """``{% generation %}`` marks what a trainer learns from; for lengths it is transparent."""

    tags = {"generation"}  # noqa: RUF012 - the class attribute that jinja2 reads

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Guard(NodeTransformer):
    """Puts a step check into every loop and macro, and routes ``~`` through a bounded join."""

    def _tick(self, node: Any) -> Any:
        self.generic_visit(node)
        call = nodes.Call(nodes.EnvironmentAttribute("tick"), [], [], None, None)
        node.body.insert(0, nodes.ExprStmt(call, lineno=node.lineno))
        if getattr(node, "test", None) is not None:  # `for ... if test`: tick() is falsy, so the test decides
            node.test = nodes.Or(call, node.test, lineno=node.lineno)
        return node

    visit_For = visit_Macro = visit_CallBlock = _tick

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return nodes.Call(nodes.EnvironmentAttribute("concat_texts"), node.nodes, [], None, None, lineno=node.lineno)


class _Budget(threading.local):
    steps = 0
    deadline = 0.0
    text = _SLACK
    spent = 0


class Environment(ImmutableSandboxedEnvironment):
    """The jinja2 environment of chat templates, with time and size bounded. Thread-safe."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        # optimized=False: constant folding would run operations at compile time, outside the budget.
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, optimized=False, extensions=[_Generation, loopcontrols], cache_size=0
        )
        self.budget = _Budget()
        for name in _REMOVED:
            self.filters.pop(name, None)
        self.globals.pop("lipsum", None)
        self.filters["tojson"] = self._tojson
        checks: dict[str, Callable[..., None]] = {
            "join": self._check_join,
            "replace": self._check_replace,
            "format": self._check_format,
            "indent": self._check_indent,
        }
        for name, check in checks.items():
            self.filters[name] = _checked(self.filters[name], check)
        self.globals["raise_exception"] = _raise_exception
        self.globals["strftime_now"] = _strftime_now

    def start(self, characters: int) -> None:
        """A new render whose messages hold ``characters``."""
        b = self.budget
        b.steps, b.deadline, b.spent = 0, time.monotonic() + MAX_SECONDS, 0
        b.text = 4 * characters + _SLACK

    def tick(self) -> str:
        """One step of a loop or a macro."""
        b = self.budget
        b.steps += 1
        if b.steps > MAX_STEPS:
            raise SecurityError(f"it takes more than {MAX_STEPS:,} steps")
        if time.monotonic() > b.deadline:
            raise SecurityError(f"it takes longer than {MAX_SECONDS:g} seconds")
        return ""

    def spend(self, size: int) -> None:
        """Ask for a text (or list) of ``size`` before it is made."""
        b = self.budget
        b.spent += size
        if size > b.text or b.spent > 64 * b.text:
            raise SecurityError("it makes a text far longer than its messages")

    def concat_texts(self, *parts: Any) -> str:
        """The operator ``~``."""
        texts = [str(p) for p in parts]
        self.spend(sum(map(len, texts)))
        return "".join(texts)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "+" and hasattr(left, "__len__") and hasattr(right, "__len__"):
            self.spend(len(left) + len(right))
        elif operator == "*":
            self._check_product(left, right)
        elif operator == "**" and (abs(right) > 64 or abs(left) > 1 << 32):
            raise SecurityError("it raises a number to a great power")
        elif operator == "%" and isinstance(left, str):
            self._check_format(left)
        return super().call_binop(context, operator, left, right)

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        owner = getattr(__obj, "__self__", None)
        if isinstance(owner, str):
            name = __obj.__name__
            if name in _PADDING and any(isinstance(a, int) and a > _WIDEST for a in (*args, *kwargs.values())):
                raise SecurityError("it pads a text far beyond its messages")
            if name == "join" and args:
                __self._check_join(args[0], owner)
            elif name == "replace" and len(args) > 1:
                __self._check_replace(owner, *args[:2])
        result = super().call(__context, __obj, *args, **kwargs)
        if isinstance(result, str | list):
            __self.spend(len(result))
        return result

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        wrapped = super().wrap_str_format(value)
        if wrapped is not None:
            self._check_format(value.__self__)
        return wrapped

    def _generate(self, source: Any, name: Any, filename: Any, defer_init: bool = False) -> str:
        guarded = _Guard().visit(source).set_environment(self)
        return super()._generate(guarded, name, filename, defer_init)

    def _check_product(self, left: Any, right: Any) -> None:
        for many, times in ((left, right), (right, left)):
            if hasattr(many, "__len__") and isinstance(times, int):
                self.spend(len(many) * max(times, 0))
        if isinstance(left, int) and isinstance(right, int) and left.bit_length() + right.bit_length() > 4096:
            raise SecurityError("it makes a very large number")

    def _check_join(self, value: Any, d: str = "", attribute: Any = None) -> None:
        if isinstance(value, list | tuple | str):
            self.spend(sum(len(v) if isinstance(v, str) else 64 for v in value) + len(d) * len(value))
        elif len(d) > _WIDEST:
            raise SecurityError("it joins with a very long separator")

    def _check_replace(self, text: Any, old: Any = "", new: Any = "", count: Any = None) -> None:
        text, old, new = str(text), str(old), str(new)
        self.spend(len(text) + len(new) * (text.count(old) if old else len(text) + 1))

    def _check_format(self, pattern: Any, *args: Any, **kwargs: Any) -> None:
        # A width is a number, a star (printf) or a nested field (str.format): none may be great or unknown.
        if re.search(r"\d{5,}|%[^a-zA-Z%]*\*|:[^}]*\{", str(pattern)):
            raise SecurityError("it formats with a very great or computed width")

    def _check_indent(self, text: Any, width: Any = 4, *args: Any, **kwargs: Any) -> None:
        each = len(width) if isinstance(width, str) else int(width)
        self.spend(len(str(text)) + each * (str(text).count("\n") + 1))

    def _tojson(
        self, x: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
    ) -> str:
        if (isinstance(indent, int) and indent > 64) or (isinstance(indent, str) and len(indent) > 64):
            raise SecurityError("it indents JSON by more than 64")
        text = json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
        self.spend(len(text))
        return text


def _checked(filter_: Callable[..., Any], check: Callable[..., None]) -> Callable[..., Any]:
    """The filter behind its check; jinja2 hands some filters their environment or context first."""
    wants = getattr(filter_, "jinja_pass_arg", None)

    def bounded(*args: Any, **kwargs: Any) -> Any:
        check(*(args[1:] if wants else args), **kwargs)
        return filter_(*args, **kwargs)

    if wants:
        bounded.jinja_pass_arg = wants  # type: ignore[attr-defined]
    return bounded


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)


def _strftime_now(pattern: str) -> str:
    return datetime.now().strftime(pattern[:100])


Render = Callable[[Mapping[str, Any], int], str]


def compile_template(source: str, *, label: str) -> Render:
    """A function of (variables, characters in the messages) that renders.

    Raises ``CurateError`` naming ``label``, here when the template does not parse, later when it fails on a sample or
    goes over a bound.
    """
    environment = Environment()
    template: jinja2.Template = _guarded(lambda: environment.from_string(source), label=label)

    def render(variables: Mapping[str, Any], characters: int) -> str:
        def run() -> str:
            environment.start(characters)
            pieces, size = [], 0
            for piece in template.generate(variables):
                size += len(piece)
                if size > environment.budget.text:
                    raise SecurityError("it makes a text far longer than its messages")
                pieces.append(piece)
            return "".join(pieces)

        text: str = _guarded(run, label=label)
        return text

    return render


_ELSE: Final = "Give another with --chat-template FILE, or count the trace alone with --count trace."


def _guarded(action: Callable[[], Any], *, label: str) -> Any:
    try:
        return action()
    except SecurityError as fault:
        why = str(fault).rstrip(".")
        raise CurateError(f"The chat template of {label} is not safe to run: {why}. Look at it, then: {_ELSE}") from fault
    except jinja2.TemplateSyntaxError as fault:
        where = f"line {fault.lineno}: {fault.message}"
        raise CurateError(f"The chat template of {label} does not parse ({where}). {_ELSE}") from fault
    except (
        jinja2.TemplateError,
        TypeError,
        ValueError,
        LookupError,
        ArithmeticError,
        AttributeError,
        RecursionError,
    ) as fault:
        why = str(fault) or type(fault).__name__
        raise CurateError(f"The chat template of {label} fails on a sample ({why}). {_ELSE}") from fault
