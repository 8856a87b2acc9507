"""Choose which reasoning traces to fine-tune on: count, yield, select, never cut."""
