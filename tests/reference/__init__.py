"""Reference decoder of gradwire frames, written from docs/format.md alone."""
