"""The card of a data set: what it is, how it was made, what was dropped and why. Facts in, ``README.md`` out.

``render`` is a pure function of the manifest and of the card that is there already; ``curate.readme`` merges the two. Rendering
twice changes nothing, which is how ``curate check`` finds a card that disagrees with its manifest. Names, licences and labels
come from data and are hostile: every one goes through ``curate.markdown``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from curate import readme
from curate.markdown import code, command, md

SIZES: Final = (
    (1_000, "n<1K"),
    (10_000, "1K<n<10K"),
    (100_000, "10K<n<100K"),
    (1_000_000, "100K<n<1M"),
    (10_000_000, "1M<n<10M"),
    (100_000_000, "10M<n<100M"),
    (1_000_000_000, "100M<n<1B"),
)
"""Upper ends (exclusive) and names of the Hub's ``size_categories``."""

DROPPED: Final = {
    "bad_row": "no text, or verdicts that do not line up with the traces",
    "no_problem": "belongs to no problem",
    "unfinished": "cut off by the generator, or without an answer",
    "no_thinking": "no reasoning in it",
    "not_passing": "failed, or nobody checked it",
    "over_length": "longer than the bound: left out whole",
    "not_chosen": "another trace of the same problem was chosen",
}

POLICIES: Final = {
    "all": "every passing trace",
    "first": "the first passing trace",
    "shortest": "the shortest passing trace",
    "longest": "the longest passing trace",
    "random": "one passing trace, drawn by a seed,",
}

BASES: Final = {
    "verdict": "the publisher's verdict on each trace",
    "judge": "the verdict of a language model on each trace",
    "verified": "`curate verify`: each program ran against the tests",
    "prefiltered": "the publisher's word that failing traces were removed; no row has a verdict of its own",
    "proxy": "a stand-in for a verdict, since nobody checked the answers",
    "none": "nothing: nobody has checked these traces",
}

PASSING: Final = {
    "known": "A trace passes when its verdict is true; one without a verdict does not.",
    "not-failed": "A trace passes unless its verdict is false; unchecked traces pass.",
    "finished": "Verdicts were ignored: every finished trace passes.",
}

_HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
_COMMIT = re.compile(r"[0-9a-f]{40}")


def render(
    manifest: Mapping[str, Any],
    *,
    config: str = "default",
    existing: str | None = None,
    beside: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """The card of what a manifest describes, merged into the card that is there.

    Args:
        manifest: As ``select`` writes it.
        config: Name of the config. ``default`` has its rows in ``data/``, another one in ``<config>/data/``.
        existing: The card to keep the hand-written text of.
        beside: Files (split to globs) of a default config that the existing card does not list.

    Raises:
        CurateError: The existing front matter is broken, or a mark lost its partner.
    """
    facts = readme.Facts(
        splits=splits_of(manifest["files"]),
        size=size_category(int(manifest["select"]["kept"])),
        licences=_licences(manifest),
        source_datasets=_origins(manifest),
        beside=beside or {},
    )
    return readme.merge("\n".join(_body(manifest, readme.folder(config))), facts, config=config, existing=existing)


def render_bare(
    files: Mapping[str, int],
    *,
    version: str,
    config: str = "default",
    existing: str | None = None,
    beside: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """The card of Parquet files that were pushed as they are, without ledger and manifest.

    ``files`` maps ``data/<split>-00000-of-00001.parquet`` to its rows.
    """
    rows = sum(files.values())
    text = (
        f"{_n(rows, 'row')} in {_n(len(files), 'Parquet file')}, pushed as they are with curate {md(version)}. There is no "
        "ledger and no manifest: nothing here says where the rows come from, how they were chosen or how long they are."
    )
    facts = readme.Facts(splits=splits_of(files), size=size_category(rows), beside=beside or {})
    return readme.merge(text, facts, config=config, existing=existing)


def size_category(rows: int) -> str:
    """The Hub's name for a number of rows.

    >>> size_category(999), size_category(1000), size_category(2 * 10**9)
    ('n<1K', '1K<n<10K', 'n>1B')
    """
    return next((name for end, name in SIZES if rows < end), "n>1B")


def splits_of(files: Iterable[str]) -> list[str]:
    """The splits that ``data/<split>-00000-of-00001.parquet`` name, ``train`` first.

    >>> splits_of(["data/test-00000-of-00001.parquet", "data/train-00000-of-00001.parquet", "ledger.parquet"])
    ['train', 'test']
    """
    names = {found[1] for f in files if (found := re.fullmatch(r"data/(\w+(?:\.\w+)*)-\d{5}-of-\d{5}\.parquet", f))}
    return sorted(names, key=lambda s: (s != "train", s))


# The text


def _body(manifest: Mapping[str, Any], root: str) -> list[str]:
    lines = [f"# {_title(manifest)}", "", *_summary(manifest), ""]
    lines += ["## How it was made", "", *_made(manifest, root), ""]
    lines += ["## From what was read to what is here", "", *_funnel(manifest), ""]
    lines += ["## What each length bound keeps", "", *_bounds(manifest), *_picture(manifest, root), ""]
    lines += ["## Difficulty", "", *_difficulty(manifest), ""]
    lines += ["## How tokens were counted", "", _counting(manifest), ""]
    lines += ["## What passing means here", "", *_passing(manifest), ""]
    lines += ["## What is not in here", "", *_missing(manifest), ""]
    lines += ["## Licence and attribution", "", *_attribution(manifest)]
    return lines


def _picture(manifest: Mapping[str, Any], root: str) -> list[str]:
    if "yield.png" not in (manifest.get("files") or {}):
        return []
    return ["", f"![Problems kept at each length bound; the table above has the numbers]({root}yield.png)"]


def _sources(manifest: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(manifest.get("sources") or [])


def _names(manifest: Mapping[str, Any]) -> str:
    return " and ".join(md(s["name"]) for s in _sources(manifest)) or "an unnamed source"


def _bound(manifest: Mapping[str, Any]) -> int | None:
    bound = (manifest.get("options") or {}).get("max_tokens")
    return int(bound) if bound is not None else None


def _policy(manifest: Mapping[str, Any]) -> str:
    policy = str((manifest.get("options") or {}).get("policy") or "all")
    return POLICIES.get(policy, f"the traces of policy {md(policy)}")


def _title(manifest: Mapping[str, Any]) -> str:
    bound = _bound(manifest)
    within = f", at most {bound:,} tokens" if bound else ""
    policy = _policy(manifest).removesuffix(",")
    return f"{policy[0].upper()}{policy[1:]} of {_names(manifest)}{within}"


def _summary(manifest: Mapping[str, Any]) -> list[str]:
    chosen, bound = manifest["select"], _bound(manifest)
    within = f", each of at most {bound:,} tokens" if bound else ""
    each = "" if _policy(manifest) == POLICIES["all"] else " of each problem"
    return [
        f"{_n(chosen['kept'], 'reasoning trace')} for {_n(chosen['problems_kept'], 'problem')}: {_policy(manifest)}{each}{within}.",
        f"They were chosen from {_n(chosen['traces'], 'trace')} of {_names(manifest)}; every trace is whole, none was cut to fit.",
    ]


def _made(manifest: Mapping[str, Any], root: str) -> list[str]:
    lines = [command([str(w) for w in manifest.get("command") or ["curate", "select"]]), ""]
    lines += ["| source | revision | licence |", "|---|---|---|"]
    for source in _sources(manifest):
        revision = code(source["revision"]) if source.get("revision") else "local files"
        licence = md(_words(source.get("licence"))) or "not stated"
        lines.append(f"| {md(source['name'])} | {revision} | {licence} |")
    version = md(manifest.get("curate", "?"))
    lines += ["", f"Made with curate {version}. `curate select --like {root}manifest.json` makes it again: that file holds every"]
    lines += [f"option and the SHA-256 of each file. `{root}ledger.parquet` has every trace read and why it was dropped."]
    return lines


def _funnel(manifest: Mapping[str, Any]) -> list[str]:
    chosen = manifest["select"]
    dropped = {reason: int((chosen.get("dropped") or {}).get(reason, 0)) for reason in DROPPED}
    read = int(chosen["traces"])
    usable = read - sum(dropped[r] for r in ("bad_row", "no_problem", "unfinished", "no_thinking"))
    passing = usable - dropped["not_passing"]
    steps = [("within the bound", "over_length"), ("chosen", "not_chosen")]
    if (manifest.get("options") or {}).get("choose_then_drop"):
        steps.reverse()
    lines = ["| step | traces |", "|---|---:|", f"| read | {read:,} |", f"| usable | {usable:,} |", f"| passing | {passing:,} |"]
    left = passing
    for name, reason in steps:
        left -= dropped[reason]
        lines.append(f"| {name} | {left:,} |")
    problems, kept = int(chosen["problems"]), int(chosen["problems_kept"])
    tokens = chosen.get("tokens_kept")
    spent = f" They hold {int(tokens):,} tokens." if tokens is not None else ""
    return [*lines, "", f"{kept:,} of {_n(problems, 'problem')} are here{_share(kept, problems)}.{spent}"]


def _bounds(manifest: Mapping[str, Any]) -> list[str]:
    rows = (manifest.get("yield") or {}).get("bounds") or []
    if not rows:
        return ["No table of bounds was recorded."]
    lines = [
        "Problems with a passing trace within each bound, of the whole source. *shortest*: any passing trace that fits;",
        "*first*: the first passing trace of the file fits; *average*: a passing trace drawn at random fits.",
        "",
        "| at most tokens | traces | shortest | first | average |",
        "|---:|---:|---:|---:|---:|",
    ]
    bound = _bound(manifest)
    for row in rows:
        top, problems = row["max_tokens"], row["problems"]
        name = "no bound" if top is None else f"{int(top):,}"
        name = f"**{name}**" if top == bound else name
        average = float(problems["average"])
        cells = [
            name,
            f"{int(row['traces']):,}",
            f"{int(problems['shortest']):,}",
            f"{int(problems['first']):,}",
            f"{average:,.1f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, *_why_fewer(manifest, rows)]


def _why_fewer(manifest: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Without a tokenizer rows are held to the upper end of the estimate, the table to the estimate itself."""
    bound = _bound(manifest)
    counted = next((int(row["problems"]["shortest"]) for row in rows if row["max_tokens"] == bound), 0)
    fewer = counted - int(manifest["select"]["problems_kept"])
    estimated = (manifest.get("tokens") or {}).get("basis") == "estimate"
    if bound is None or fewer <= 0 or not estimated or (manifest.get("options") or {}).get("choose_then_drop"):
        return []
    return ["", f"The table goes by the estimate itself; rows were held to its upper end, so {_n(fewer, 'problem')} fewer "
            f"{'is' if fewer == 1 else 'are'} here."]  # fmt: skip


def _difficulty(manifest: Mapping[str, Any]) -> list[str]:
    rows = (manifest.get("yield") or {}).get("bounds") or []
    bound = _bound(manifest)
    skew = next((row.get("skew") for row in rows if row["max_tokens"] == bound), None)
    if not skew:
        return ["The source gives no difficulty, so nothing is known about which problems the bound lost."]
    lines = ["| difficulty | problems | with a passing trace | within the bound |", "|---|---:|---:|---:|"]
    for band in [*skew["bands"], *([skew["unrated"]] if skew.get("unrated") else [])]:
        kept = float(band["kept"])
        share = _share(kept, int(band["with_passing"]))
        lines.append(f"| {md(band['label'])} | {int(band['problems']):,} | {int(band['with_passing']):,} | {kept:,.0f}{share} |")
    return [*lines, "", skew_words(skew)]


def skew_words(skew: Mapping[str, Any]) -> str:
    """What a bound did to difficulty, in two sentences; ``skew`` is that of ``yield --json``."""
    auc, hard = skew.get("auc"), skew.get("hard_share") or {}
    kept, everyone = skew.get("kept_median"), skew.get("all_median")
    if auc is None:
        return "No rated problem was lost to the bound, or none was kept, so there is no skew to speak of."
    # 0.5 is a coin; within 0.05 of it the two groups are as good as alike.
    lean = "harder than" if auc > 0.55 else "easier than" if auc < 0.45 else "about as hard as"
    words = f"Problems lost to the bound are {lean} those kept: a lost one is the harder of two with probability {auc:.2f}."
    if kept is not None and everyone is not None:
        words += f" Median difficulty is {kept:g} within the bound and {everyone:g} among all rated problems with a passing trace."
    if hard.get("kept") is not None and hard.get("with_passing") is not None:
        words += (
            f" The hardest band is {hard['kept']:.1%} of the kept and {hard['with_passing']:.1%} of those with a passing trace."
        )
    return words


def _counting(manifest: Mapping[str, Any]) -> str:
    tokens = manifest.get("tokens") or {}
    by, what = code(tokens.get("by", "?")), "the trace alone"
    if tokens.get("count", "sample") == "sample":
        what = "the whole sample, prompt included"
    basis = tokens.get("basis")
    if basis == "exact":
        return f"Exactly, with {by}: {what}."
    if basis == "column":
        return f"By the publisher: column {by} of the source was taken as it is and not counted again."
    low, high = tokens.get("low"), tokens.get("high")
    error = "Its error is not known."
    if low is not None and high is not None:
        error = f"True totals lie between {float(low):.2f} and {float(high):.2f} times the estimate in 95 % of sources."
    return f"Estimated by {by} from {what}; no tokenizer was run. {error}"


def _passing(manifest: Mapping[str, Any]) -> list[str]:
    passing = str((manifest.get("options") or {}).get("passing") or "known")
    lines = [PASSING.get(passing, f"Rule: {md(passing)}."), ""]
    for source in _sources(manifest):
        basis = str(source.get("basis") or "none")
        lines.append(f"- {md(source['name'])}: {BASES.get(basis, md(basis))}.")
    return lines


def _missing(manifest: Mapping[str, Any]) -> list[str]:
    chosen = manifest["select"]
    dropped = chosen.get("dropped") or {}
    lost = chosen.get("problems_lost") or {}
    lines = ["| traces | problems lost by it | why |", "|---:|---:|---|"]
    for reason, why in DROPPED.items():
        if dropped.get(reason):
            lines.append(f"| {int(dropped[reason]):,} | {int(lost.get(reason, 0)):,} | {why} |")
    if len(lines) == 2:
        return ["Nothing was left out: every trace read is here."]
    return [*lines, "", "A trace over the bound is left out whole. Cutting it would train a model to stop thinking midway."]


def _attribution(manifest: Mapping[str, Any]) -> list[str]:
    lines = []
    for source in _sources(manifest):
        licence = md(_words(source.get("licence")))
        terms = f"under {licence}" if licence else "which states no licence: ask its owner before you pass rows on"
        lines.append(f"- Rows come from {md(source['name'])}, {terms}.")
    return [*lines, "", "This selection adds no rights and takes none away: keep the licence and name the source."]


def _n(count: object, noun: str) -> str:
    number = int(str(count))
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _share(part: float, whole: int) -> str:
    return f" ({part / whole:.0%})" if whole else ""


def _licences(manifest: Mapping[str, Any]) -> list[str]:
    found: dict[str, None] = {}
    for source in _sources(manifest):
        said = source.get("licence")
        found |= dict.fromkeys([said] if isinstance(said, str) else [str(item) for item in said or []])
    return [name for name in found if name]


def _words(licence: object) -> str:
    if licence is None:
        return ""
    return licence if isinstance(licence, str) else ", ".join(str(item) for item in licence if item)  # type: ignore[attr-defined]


def _origins(manifest: Mapping[str, Any]) -> list[str]:
    """Sources on the Hub: those with a commit; ``repo`` is taken where a source has it, else its name up to the config."""
    found: dict[str, None] = {}
    for source in _sources(manifest):
        name = re.split("[:@]", str(source.get("repo") or source.get("name") or ""))[0]
        if _COMMIT.fullmatch(str(source.get("revision") or "")) and _HUB_NAME.fullmatch(name):
            found[name] = None
    return list(found)
