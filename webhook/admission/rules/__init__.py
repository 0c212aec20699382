"""The rules: warnings about probable mistakes. Each rule has an id and a configurable level."""
