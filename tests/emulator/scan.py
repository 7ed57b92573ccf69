"""Finds the ends of strings and brackets in C++, and splits lists."""


def end_of_string(text: str, start: int) -> int:
    """The index behind the string or character that begins at `start`."""
    at = start + 1
    while text[at] != text[start]:
        at += 2 if text[at] == "\\" else 1
    return at + 1


def pieces(text: str, start: int = 0):
    """Indices of single characters and how deep in brackets they are; strings are left out."""
    depth, at = 0, start
    while at < len(text):
        if text[at] == '"':
            at = end_of_string(text, at)
            continue
        depth -= text[at] in ")]}"
        yield at, depth
        depth += text[at] in "([{"
        at += 1


def end_of_brackets(text: str, start: int) -> int:
    """The index behind the bracket that closes the one at `start`."""
    for at, depth in pieces(text, start):
        if depth == 0 and text[at] in ")]}":
            return at + 1
    raise ValueError(f"brackets are open: {text[start : start + 80]}")


def split(text: str, separator: str) -> list[str]:
    """The parts between separators that are in no brackets, stripped; none of an empty text."""
    if not text.strip():
        return []
    cuts = [at for at, depth in pieces(text) if depth == 0 and text[at] == separator]
    return [text[a + 1 : b].strip() for a, b in zip([-1, *cuts], [*cuts, len(text)])]
