"""Flags, output and the one error boundary; no logic."""

from __future__ import annotations

import click


@click.group()
def main() -> None:
    """Choose which reasoning traces to fine-tune on."""
