"""Hand-made frames that break one rule of docs/format.md each; see tools/make_malformed.py."""
