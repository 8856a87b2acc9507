"""Make ``sample.parquet``: synthetic reasoning traces whose lengths follow a published distribution.

Everything in the file is made here from a grammar and a seed: no model wrote the traces, no judge read them, and the
problems are not taken from anywhere. What is real is the shape. Lengths (characters / 3.6 of prompt, line break and trace,
rounded down) follow the quantiles published for the ``solutions_py_decontaminated`` subset of open-r1/codeforces-cots:
median 13,770, p90 23,374, p99 27,315, and 17 / 30 / 58 / 94 % within 5,120 / 8,192 / 16,384 / 24,576. Harder problems have
longer traces and fewer passing ones.

    python data/make_sample.py                      writes data/sample.parquet
    python data/make_sample.py --seed 1 -o x.parquet

The same seed gives the same rows on every machine, and the same bytes with the same polars release (another release may
lay out or compress Parquet differently). Texts repeat themselves, as long traces do, which is how 37 MB become less than 3.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

SYNTHETIC = "Synthetic sample made by data/make_sample.py: no model wrote these traces; only their lengths follow a published distribution."

# Traces per problem: {how many: problems with so many}. 330 problems, 772 traces.
COUNTS = {1: 100, 2: 100, 3: 70, 4: 38, 5: 22}

# Share of the traces within so many tokens; straight lines between. Source: see the first paragraph of the module; p99 stands where
# the nearest rank of 772 falls.
QUANTILES = (
    (0.0, 760), (0.17, 5120), (0.30, 8192), (0.50, 13770), (0.58, 16384), (0.90, 23374), (0.94, 24576), (0.9903, 27315), (1.0, 31400),
)  # fmt: skip
UNRATED = 0.06  # as in the source: about 480 of 8,133
CUT = 6  # the longest few were stopped by the generator; fewer than 1 %, so that p99 is the length of a finished trace
NO_THINKING = 5  # R1 sometimes leaves its thinking empty; such a trace is short and must not win

Steps = tuple[str, list[str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """One kind of problem: its statement, ideas about it, worked examples, and a solution."""

    tag: str
    statements: tuple[str, ...]
    ideas: tuple[str, ...]
    edges: tuple[str, ...]
    example: Callable[[random.Random], Steps]
    code: str


def _listed(values: list[int]) -> str:
    return ", ".join(map(str, values))


def _best_run(rng: random.Random) -> Steps:
    values = [rng.randint(-9, 12) for _ in range(rng.randint(7, 13))]
    lines, run, best = [], 0, -(10**9)
    for i, v in enumerate(values, 1):
        run = max(v, run + v)
        best = max(best, run)
        lines.append(f"index {i}: the value is {v}, the best run that ends here is {run}, the best so far is {best}")
    return f"Take the array {_listed(values)}.", lines, f"So the answer for this array is {best}."


def _gcd(rng: random.Random) -> Steps:
    a, b = rng.randint(300, 5000), rng.randint(60, 900)
    lines, x, y = [], a, b
    while y:
        lines.append(f"{x} divided by {y} leaves {x % y}, so the pair becomes ({y}, {x % y})")
        x, y = y, x % y
    return f"Take a = {a} and b = {b}.", lines, f"The remainder is zero, so the greatest common divisor is {x}."


def _levels(rng: random.Random) -> Steps:
    n = rng.randint(7, 12)
    parent = {v: rng.randint(1, v - 1) for v in range(2, n + 1)}
    depth, lines = {1: 0}, []
    for v, p in parent.items():
        depth[v] = depth[p] + 1
        lines.append(f"vertex {v} hangs under {p}, its distance from the root is {depth[v]}")
    deepest = max(depth, key=lambda v: (depth[v], -v))
    return (
        f"Take a tree with {n} vertices, rooted at 1.",
        lines,
        f"The farthest vertex is {deepest}, at distance {depth[deepest]}.",
    )


def _coins(rng: random.Random) -> Steps:
    coins = sorted(rng.sample([2, 3, 4, 5, 6, 7, 9], 3))
    total = rng.randint(9, 15)
    best: list[int | None] = [0]
    lines = []
    for s in range(1, total + 1):
        options = [r + 1 for c in coins if c <= s and (r := best[s - c]) is not None]
        best.append(min(options) if options else None)
        lines.append(f"sum {s}: " + (f"reachable with {best[s]} coins" if options else "not reachable"))
    end = f"it takes {best[total]} coins" if best[total] is not None else "it cannot be paid"
    return f"Take the coins {_listed(coins)} and the sum {total}.", lines, f"For the sum {total} {end}."


def _intervals(rng: random.Random) -> Steps:
    starts = [rng.randint(0, 20) for _ in range(rng.randint(6, 9))]
    spans = sorted(((s, s + rng.randint(2, 9)) for s in starts), key=lambda p: (p[1], p[0]))
    lines, end, taken = [], -1, 0
    for a, b in spans:
        if a >= end:
            end, taken = b, taken + 1
            lines.append(f"interval [{a}, {b}) begins at or after the last end, so we take it, and now we hold {taken}")
        else:
            lines.append(f"interval [{a}, {b}) begins before {end}, so we leave it")
    return f"Take {len(spans)} intervals and sort them by their right end.", lines, f"We can take {taken} of them."


def _prefix(rng: random.Random) -> Steps:
    text = "".join(rng.choice("ab") for _ in range(rng.randint(8, 13)))
    lines, pi = [], [0]
    for i in range(1, len(text)):
        j = pi[-1]
        while j and text[i] != text[j]:
            j = pi[j - 1]
        pi.append(j + (text[i] == text[j]))
        lines.append(f"position {i}, letter {text[i]}: the longest border has length {pi[-1]}")
    return (
        f"Take the string {text}.",
        lines,
        f"The last border has length {pi[-1]}, so the shortest period is {len(text) - pi[-1]}.",
    )


def _power(rng: random.Random) -> Steps:
    base, exponent, mod = rng.randint(2, 40), rng.randint(40, 2000), rng.choice([97, 101, 211, 499, 997])
    lines, result, square, e = [], 1, base % mod, exponent
    while e:
        if e & 1:
            result = result * square % mod
        lines.append(f"the last bit is {e & 1}, the result is {result}, and the square becomes {square * square % mod}")
        square, e = square * square % mod, e >> 1
    return f"Take {base} to the power {exponent} modulo {mod}.", lines, f"The power is {result} modulo {mod}."


def _area(rng: random.Random) -> Steps:
    w, h = rng.randint(4, 15), rng.randint(4, 15)
    points = [
        (0, 0),
        (w, rng.randint(0, 2)),
        (w + rng.randint(1, 4), h),
        (rng.randint(1, w), h + rng.randint(1, 4)),
        (0, h),
    ]
    lines, twice = [], 0
    for (x, y), (p, q) in zip(points, points[1:] + points[:1], strict=True):
        cross = x * q - p * y
        twice += cross
        lines.append(f"from ({x}, {y}) to ({p}, {q}) the cross product is {cross}, and the sum is {twice}")
    area = f"{abs(twice) // 2}" + (".5" if twice % 2 else "")
    return "Take a polygon with five corners.", lines, f"Half of the sum is the area, {area}."


TOPICS = (
    Topic(
        tag="arrays",
        statements=(
            "You are given {n} integers. Find the largest sum of a non-empty block of neighbouring elements of which at most {k} are negative.",
            "A shop writes down {n} daily balances. Choose a run of consecutive days with the largest total; at least {k} days must be in it.",
        ),
        ideas=(
            "A block is fixed by its two ends, and there are about n squared over two of them, which is {pairs} here and too many to add up one by one.",
            "With prefix sums the total of a block is a difference of two of them, so for every right end I want the smallest prefix before it.",
            "If the best run that ends one step earlier is negative, it only hurts to carry it on, and the new run begins here.",
            "The limit of {k} needs a window: I keep the candidates in a deque and throw away those that fell out on the left.",
            "Every index enters the deque once and leaves it once, so the whole pass is linear even though there is a loop inside a loop.",
            "The sum can reach {n} times a billion, which does not fit in 32 bits, but Python does not care.",
        ),
        edges=(
            "all numbers are negative",
            "the array has a single element",
            "k equals n",
            "there are zeros at both ends of the run",
        ),
        example=_best_run,
        code="n, k = map(int, input().split())\na = list(map(int, input().split()))\nbest = run = a[0]\nfor v in a[1:]:\n    run = max(v, run + v)\n    best = max(best, run)\nprint(best)",
    ),
    Topic(
        tag="number theory",
        statements=(
            "Given {n} pairs of integers up to {big}, print for each pair the smallest number that both divide, modulo {k}.",
            "Count the integers up to {big} that share no divisor above 1 with {k}, and answer {n} such questions.",
        ),
        ideas=(
            "The smallest common multiple is the product divided by the greatest common divisor, so everything hangs on Euclid's algorithm.",
            "Each step of Euclid at least halves the larger number within two rounds, so about {log} rounds are enough for numbers up to {big}.",
            "I must not reduce modulo {k} before I divide, since division and remainder do not commute.",
            "The numbers that share no divisor with {k} repeat with period {k}, so I count one period and multiply.",
            "Inclusion and exclusion over the distinct primes works: a number up to {big} has at most nine of them, hence at most 512 terms.",
            "A sieve up to the square root is enough to split every number that the input can contain.",
        ),
        edges=(
            "one of the two numbers is 1",
            "both numbers are equal",
            "the modulus is itself prime",
            "the product needs more than 64 bits",
        ),
        example=_gcd,
        code="from math import gcd\nn, k = map(int, input().split())\nfor _ in range(n):\n    a, b = map(int, input().split())\n    print(a // gcd(a, b) * b % k)",
    ),
    Topic(
        tag="trees",
        statements=(
            "A tree has {n} vertices. For every vertex print the distance to the farthest vertex that has at least {k} neighbours.",
            "In a tree with {n} vertices remove {k} edges so that the largest remaining part is as small as possible, and print its size.",
        ),
        ideas=(
            "Rooted at vertex 1, every answer splits into a part below the vertex and a part that leaves through its parent.",
            "The part below is one pass from the leaves up, the other part is a second pass from the root down: that is rerooting.",
            "For the way through the parent I need the two best values among its children, because the best one may be the vertex that asks.",
            "A recursion {n} deep would break Python's stack, so I write the order of a breadth-first search into a list and walk it backwards.",
            "If I guess the size of the largest part, a greedy cut from the leaves tells how many edges that needs, and the guess can be found by bisection.",
            "Bisection takes about {log} rounds of one linear pass each, roughly {steps} operations in all.",
        ),
        edges=(
            "the tree is a path",
            "the tree is a star",
            "there is one vertex only",
            "no vertex has enough neighbours",
        ),
        example=_levels,
        code="import sys\ndata = list(map(int, sys.stdin.read().split()))\nn, k = data[0], data[1]\nparent = [0, 0] + data[2 : n + 1]\ndepth = [0] * (n + 1)\nfor v in range(2, n + 1):\n    depth[v] = depth[parent[v]] + 1\nprint(max(depth))",
    ),
    Topic(
        tag="dynamic programming",
        statements=(
            "There are {k} kinds of coins, as many of each as you like. Print for every sum up to {n} the smallest number of coins, or -1.",
            "A robot climbs {n} steps and may take {k} different strides. In how many ways can it arrive exactly at the top?",
        ),
        ideas=(
            "Let f(s) be the answer for the sum s; the last coin is one of {k}, so f(s) is one more than the smallest f(s - c).",
            "Greedy choice of the largest coin fails as soon as the coins are not multiples of each other, so I really need the table.",
            "The table has {n} entries and each looks at {k} earlier ones, which makes {steps} operations.",
            "If order mattered I would loop over sums outside and coins inside; for unordered choices the loops must be swapped.",
            "Only the last {span} values are ever needed, so a ring buffer would do, but memory is no problem here.",
            "An unreachable sum should hold infinity and not -1, otherwise the minimum picks it up by mistake.",
        ),
        edges=(
            "no coin is small enough",
            "the sum is zero",
            "one coin is worth exactly the sum",
            "two coins have the same value",
        ),
        example=_coins,
        code="k, n = map(int, input().split())\ncoins = list(map(int, input().split()))\nbest = [0] + [10**9] * n\nfor s in range(1, n + 1):\n    for c in coins:\n        if c <= s:\n            best[s] = min(best[s], best[s - c] + 1)\nprint(*(b if b < 10**9 else -1 for b in best[1:]))",
    ),
    Topic(
        tag="greedy",
        statements=(
            "From {n} intervals choose as many as possible such that no point is covered more than {k} times.",
            "{n} meetings ask for rooms, {k} rooms exist. Print the largest number of meetings that can be held.",
        ),
        ideas=(
            "For one room the rule is old: sort by the end, take whatever begins after the last end.",
            "The exchange argument goes like this: in any best solution the first interval can be replaced by the one that ends first.",
            "For {k} rooms I keep the ends of the rooms in a sorted multiset and give the meeting to the room that became free last.",
            "Giving it to the room that became free first wastes a gap which a later meeting could have needed.",
            "Sorting costs about n log n, that is {steps} comparisons, and the multiset costs as much again.",
            "Touching ends are fine because the intervals are half open, so the comparison must be at most and not less than.",
        ),
        edges=(
            "all intervals are equal",
            "intervals only touch",
            "one interval contains all others",
            "k is larger than n",
        ),
        example=_intervals,
        code="n, k = map(int, input().split())\nspans = sorted((tuple(map(int, input().split())) for _ in range(n)), key=lambda p: p[1])\nend, taken = -1, 0\nfor a, b in spans:\n    if a >= end:\n        end, taken = b, taken + 1\nprint(taken)",
    ),
    Topic(
        tag="strings",
        statements=(
            "Given a string of {n} letters, find its shortest period after at most {k} letters have been changed.",
            "A text of {n} letters is repeated without end. After how many letters does a window of length {k} come back for the first time?",
        ),
        ideas=(
            "A period p means that the string agrees with itself when it is moved by p, and that is the same as a border of length n - p.",
            "The prefix function gives the longest border of every prefix in linear time, and following it gives all the others.",
            "When letters may change I count mismatches between positions that differ by p, and I have to do that for every p.",
            "Only divisors matter when the period has to fill the text exactly, and {n} has few of them.",
            "Hashing with a random base would also work, but a collision among {pairs} comparisons is something I would rather avoid.",
            "Inside a class of positions it is best to keep the most frequent letter, so the cost of a class is its size minus that count.",
        ),
        edges=(
            "all letters are the same",
            "the string is its own shortest period",
            "k is zero",
            "the last block is not complete",
        ),
        example=_prefix,
        code="text = input().strip()\npi = [0] * len(text)\nfor i in range(1, len(text)):\n    j = pi[i - 1]\n    while j and text[i] != text[j]:\n        j = pi[j - 1]\n    pi[i] = j + (text[i] == text[j])\nprint(len(text) - pi[-1])",
    ),
    Topic(
        tag="combinatorics",
        statements=(
            "In how many ways can {n} equal balls be put into {k} boxes so that no box holds more than a third of them? Answer modulo {big}.",
            "Count the sequences of length {n} over {k} letters in which no letter stands twice in a row, modulo {big}.",
        ),
        ideas=(
            "Without the upper limit it is stars and bars, one binomial coefficient of n + k - 1 over k - 1.",
            "At most two boxes can be over a third at the same time, so inclusion and exclusion has three terms only.",
            "Factorials up to {span} and their inverses can be prepared once, and every coefficient is three multiplications.",
            "The inverse modulo a prime is a power with exponent p - 2, which fast exponentiation finds in about {log} squarings.",
            "The first letter is free and every later one has k - 1 choices, so the second reading is a plain power.",
            "I should check that the modulus is larger than n, otherwise some factorial would be zero and could not be inverted.",
        ),
        edges=(
            "there is a single box",
            "n is not divisible by three",
            "k is larger than n",
            "a negative term has to be brought back into range",
        ),
        example=_power,
        code="n, k, p = map(int, input().split())\nresult, square, e = 1, (k - 1) % p, n - 1\nwhile e:\n    if e & 1:\n        result = result * square % p\n    square, e = square * square % p, e >> 1\nprint(k * result % p)",
    ),
    Topic(
        tag="geometry",
        statements=(
            "A polygon has {n} corners with integer coordinates up to {big}. Print its area and how many of {k} given points lie inside.",
            "Cut a convex polygon with {n} corners by {k} parallel lines into strips of equal area, and print where the lines lie.",
        ),
        ideas=(
            "The area is half of the sum of cross products of neighbouring corners, and the sign tells the direction of the walk.",
            "All sums stay integers if I double the area, so there is no need for floating point before the very last line.",
            "For a convex polygon a point can be located by bisection over the angles seen from the first corner, about {log} steps each.",
            "A point on the border has a zero cross product with an edge, and I have to decide whether the border counts.",
            "The area to the left of a line grows steadily as the line moves, so bisection finds each cut on its own.",
            "With {k} cuts and some fifty halvings each this is about {steps} evaluations, which is a lot unless each is logarithmic.",
        ),
        edges=(
            "three corners lie on one line",
            "the corners are given clockwise",
            "a point lies on a corner",
            "the polygon has area zero",
        ),
        example=_area,
        code="n = int(input())\np = [tuple(map(int, input().split())) for _ in range(n)]\ntwice = sum(x * d - c * y for (x, y), (c, d) in zip(p, p[1:] + p[:1]))\nprint(abs(twice) / 2)",
    ),
)

OPENINGS = (
    "Okay, let me read this carefully. {statement} So n is {n} and k is {k}.",
    "Alright. {statement} I first want to be sure that I understand what is asked.",
    "Let's see. {statement} The numbers to keep in mind are {n} and {k}.",
    "Hmm. {statement} Let me think about what makes this hard.",
)
DOUBTS = (
    "Wait, what happens when {edge}? Let me not skip that.",
    "But hold on, did I think about the case where {edge}?",
    "Actually, I am not sure that this survives when {edge}.",
    "Let me double-check the situation in which {edge}.",
    "Hmm, the statement does not forbid that {edge}.",
    "One more thing that worries me: suppose {edge}.",
)
VERDICTS = (
    "In that case the loop simply does nothing extra, and the formula still gives the right value.",
    "Then the comparison decides, and since it allows equality the result does not change.",
    "Going through it by hand shows the same number, so this is covered.",
    "That would break the first version, but the second one treats it like any other input.",
    "I could add a special case for it, yet the general rule already says the same.",
    "The invariant is still true before and after such a step, so nothing has to be added.",
)
LINKS = (
    "Let me try an example to be sure.",
    "I will walk through a small input by hand.",
    "To see whether this is right, here is another small test.",
    "Let me go over that once more, slowly.",
    "Another example, with different numbers this time.",
    "Maybe a slightly larger case shows a mistake.",
)
COSTS = (
    "With n up to {n} a quadratic method means about {pairs} steps, which is too slow in Python, so it has to be close to linear.",
    "The time is n log n, around {steps} basic steps, and the memory is a few lists of {n} entries.",
    "Reading {n} numbers with a plain loop takes longer than the computation, so I read everything at once.",
)
DOUBLE = (
    "So far the approach is: {idea}",
    "Let me restate the key point. {idea}",
    "I keep coming back to the same thought. {idea}",
    "Alternatively, I could start from the other side. {idea}",
    "That agrees with what I wrote before. {idea}",
)
REMARKS = (
    "All the examples agree with each other and with the formula, so I am confident that this is the way to do it.",
    "I have gone through the limits, the special cases and the running time, and none of them asks for another change.",
    "The part I was unsure about at the beginning turned out to be the easy one, which is a good sign.",
    "There may be a shorter proof, but the argument above is complete and I do not need a nicer one.",
    "Reading the statement once more, I do not see a condition that I have left out.",
    "The output is a single number or a single line, so formatting is no problem.",
    "I will also keep the variable names from the statement, that makes mistakes visible.",
    "A brute force over tiny inputs would print the same numbers as I found by hand.",
    "So the plan stands, and what is left is to write it down without a slip.",
    "It is time to stop looking for another way.",
    "That settles it, I can write the solution.",
    "Good, this is what I am going to write.",
    "I am fairly confident in this now.",
    "Nothing else comes to mind.",
    "The rest is just typing.",
    "So this is settled.",
    "That is enough.",
    "All is clear.",
    "Right then.",
    "Good, go.",
    "Right.",
    "Yes.",
    "Ok.",
)
ANSWERS = (
    "The solution keeps one pass over the input. {idea} {idea2}",
    "The idea is short. {idea} {idea2} The edge cases need no special treatment.",
    "{idea} {idea2} This runs in time for n up to {n}.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What all traces of one problem share."""

    id: str
    topic: Topic
    prompt: str
    rating: int | None
    hardness: float
    values: dict[str, str]


def _problem(rng: random.Random, *, index: int, hardness: float, rating: int | None) -> Problem:
    topic = TOPICS[index % len(TOPICS)]
    n, k = rng.choice([200, 500, 1000, 2000, 5000]) * rng.choice([1, 10, 100]), rng.randint(2, 30)
    log = math.ceil(math.log2(n)) + 1
    values = {
        "n": f"{n:,}", "k": str(k), "big": rng.choice(["998,244,353", "1,000,000,007", "1,000,000,009"]), "log": str(log),
        "pairs": f"{n * (n - 1) // 2:,}", "steps": f"{n * log:,}", "span": f"{n + k:,}",
    }  # fmt: skip
    statement = rng.choice(topic.statements).format(**values)
    prompt = f"{statement} Read from standard input and print the answer."
    return Problem(
        id=f"synthetic-{index + 1:04d}", topic=topic, prompt=prompt, rating=rating, hardness=hardness,
        values=values | {"statement": statement},
    )  # fmt: skip


def _worked(rng: random.Random, topic: Topic) -> str:
    intro, lines, end = topic.example(rng)
    return f"{rng.choice(LINKS)} {intro}\n" + "\n".join(f"- {line}" for line in lines) + f"\n{end}"


def _talk(rng: random.Random, problem: Problem) -> str:
    """A paragraph without a worked example: a doubt and what comes of it, a thought restated, the cost, or code."""
    topic, values = problem.topic, problem.values
    first, second = (i.format(**values) for i in rng.sample(topic.ideas, 2))
    luck = rng.random()
    if luck < 0.5:
        return f"{rng.choice(DOUBTS).format(edge=rng.choice(topic.edges))} {rng.choice(VERDICTS)} {first}"
    if luck < 0.85:
        return f"{rng.choice(DOUBLE).format(idea=first)} {second}"
    if luck < 0.96:
        return f"{rng.choice(COSTS).format(**values)} {first}"
    return (
        "In code this would be something like:\n```python\n"
        + topic.code
        + "\n```\nLet me see whether that does what I want."
    )


def _thinking(rng: random.Random, problem: Problem, worked: list[str], *, characters: int) -> str:
    """Reasoning of at most ``characters`` characters, and at most some ten fewer: talk, an example, talk, an example."""
    parts = [rng.choice(OPENINGS).format(**problem.values)]
    left = characters - len(parts[0])
    order: list[str] = []
    misses = 0
    while misses < 6:
        order = order or rng.sample(worked, len(worked))
        piece = order.pop() if len(parts) % 3 == 0 else _talk(rng, problem)
        if len(piece) + 2 > left:
            misses += 1
            continue
        parts.append(piece)
        left -= len(piece) + 2
    last: list[str] = []
    while fits := [s for s in REMARKS if len(s) + 1 <= left - 1 and s not in last]:
        last.append(max(fits, key=lambda s: (len(s), s)))
        left -= len(last[-1]) + 1
    return "\n\n".join([*parts, " ".join(last)] if last else parts)


def _generation(rng: random.Random, problem: Problem, worked: list[str], *, characters: int, kind: str) -> str:
    """One trace of close to ``characters`` characters. Kinds: ``whole``, ``cut`` (no closing mark), ``empty`` thinking."""
    ideas = [i.format(**problem.values) for i in rng.sample(problem.topic.ideas, 2)]
    answer = rng.choice(ANSWERS).format(idea=ideas[0], idea2=ideas[1], **problem.values)
    answer += f"\n\n```python\n{problem.topic.code}\n```"
    if kind == "cut":
        return ("<think>\n" + _thinking(rng, problem, worked, characters=characters + 2000))[:characters]
    if kind == "empty":
        head = "<think>\n\n</think>\n\n"
        return (
            head
            + _thinking(rng, problem, worked, characters=characters - len(head) - len(answer) - 2)
            + "\n\n"
            + answer
        )
    head, tail = "<think>\n", "\n</think>\n\n" + answer
    return head + _thinking(rng, problem, worked, characters=characters - len(head) - len(tail)) + tail


def _length(share: float) -> float:
    """Tokens below which ``share`` of the traces lie."""
    for (p, a), (q, b) in itertools.pairwise(QUANTILES):
        if share <= q:
            return a + (b - a) * (share - p) / (q - p)
    raise ValueError(f"{share} is no share")


def _problems(rng: random.Random, total: int) -> list[Problem]:
    """Ratings from 800 to 3500, each problem's hardness spread evenly over 0 to 1; the hardness of unrated ones stays hidden."""
    order = rng.sample(range(total), total)
    unrated = set(rng.sample(range(1, total - 1), round(UNRATED * total)))
    found = []
    for index, place in enumerate(order):
        hardness = place / (total - 1)
        rating = 800 + 100 * round(27 * hardness**1.2)
        found.append(_problem(rng, index=index, hardness=hardness, rating=None if place in unrated else rating))
    return found


def _rows(seed: int, *, examples: int = 60) -> Iterator[dict[str, object]]:
    rng = random.Random(seed)
    counts = [c for c, times in COUNTS.items() for _ in range(times)]
    rng.shuffle(counts)
    problems = _problems(rng, len(counts))
    noise = [rng.gauss(0, 0.2) for _ in problems]
    owner = [p for p, c in enumerate(counts) for _ in range(c)]
    # How long a trace is depends on its problem and on luck; its rank among all traces then fixes the length.
    drawn = [problems[p].hardness + noise[p] + rng.gauss(0, 0.22) for p in owner]
    rank = {t: r for r, t in enumerate(sorted(range(len(owner)), key=lambda t: drawn[t]))}
    shared: dict[int, list[str]] = {}  # the worked examples of one problem come back in all of its traces
    for t, p in enumerate(owner):
        problem = problems[p]
        if p not in shared:
            shared = {p: [_worked(rng, problem.topic) for _ in range(examples)]}
        r = rank[t]
        kind = "cut" if r >= len(owner) - CUT else "empty" if r < NO_THINKING else "whole"
        sample = math.ceil(_length((r + 0.5) / len(owner)) * 3.6)
        text = _generation(rng, problem, shared[p], characters=sample - len(problem.prompt) - 1, kind=kind)
        luck = rng.random()
        right = (
            kind != "cut" and luck > 0.06 + 0.5 * problem.hardness**1.5 + max(0.0, drawn[t] - problem.hardness) * 0.3
        )
        yield {
            "id": problem.id,
            "prompt": problem.prompt,
            "generation": text,
            "passed": None if kind != "cut" and rng.random() < 0.03 else right,
            "finish_reason": "length" if kind == "cut" else "stop",
            "rating": problem.rating,
            "tag": problem.topic.tag,
        }


def make(seed: int = 0) -> pl.DataFrame:
    """The sample as a frame: one row a trace, the traces of a problem together.

    Columns: ``id``, ``prompt``, ``generation`` (text), ``passed`` (boolean, a few null: nobody looked), ``finish_reason``
    (``stop`` or ``length``), ``rating`` (Int64, 800 to 3500, a few null), ``tag``.
    """
    schema = {
        "id": pl.String, "prompt": pl.String, "generation": pl.String, "passed": pl.Boolean, "finish_reason": pl.String,
        "rating": pl.Int64, "tag": pl.String,
    }  # fmt: skip
    return pl.DataFrame(list(_rows(seed)), schema=schema)


def main() -> None:
    """Write the sample."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--out", type=Path, default=Path(__file__).with_name("sample.parquet"))
    args = parser.parse_args()
    frame = make(args.seed)
    # Large pages let zstd see several traces of a problem at once; that is worth a third of the file.
    frame.write_parquet(
        args.out, compression="zstd", compression_level=19, row_group_size=256, data_page_size=16 << 20,
        metadata={"curate.synthetic": SYNTHETIC},
    )  # fmt: skip
    print(f"{args.out}: {frame.height} traces of {frame['id'].n_unique()} problems, {args.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
