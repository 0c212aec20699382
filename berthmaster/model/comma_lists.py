"""Lists that people write with commas: in options, annotations and headers."""


def comma_separated(text: str) -> list[str]:
    """Return the parts of a list, without blanks around them and without empty ones."""
    return [part for each in text.split(",") if (part := each.strip())]
