"""A griffe extension, for docstrings and settings in the form of this package.

`Returns:`, `Yields:` and `Raises:` have their text on the same line. The Google parser of griffe
expects a blank line above the word and the text below it, and a type before a colon.

`num_heads: int = setting(8, "attention heads", minimum=1)` is shown as `num_heads: int = 8`, with
the meaning as its docstring.
"""

import dataclasses
import importlib
import re

import griffe

# A section on lines of its own, and one that follows a sentence on the same line.
SECTION = re.compile(r"(Returns|Yields|Raises): (.+)")
INLINE = re.compile(r"^(\S.*\.) ((?:Returns|Yields|Raises): .+)(?=\n\n|\Z)", re.M)
EXCEPTION = re.compile(
    r"(\w*(?:Error|Exception|Interrupt|Exit))\b(?!, \w+Error| or )[,:]? ?(.*)", re.S
)
NEXT_EXCEPTION = re.compile(r"(?<=[.;]) (?=[A-Z]\w*Error\b)")


def sections(text):
    """Rewrites the sections of a docstring.

    Args:
      text: a docstring without indentation.
    Returns: the docstring in the form of the parser.
    """
    lines = INLINE.sub(r"\1\n\n\2", text).splitlines()
    result = []
    while lines:
        line = lines.pop(0)
        match = SECTION.fullmatch(line)
        if not match:
            result.append(line)
            continue
        word, first = match.groups()
        rest = []
        while lines and (lines[0].startswith(" ") or _is_gap(lines)):
            rest.append(lines.pop(0).strip())
        body = "\n".join([first, *rest])
        result += ["", *_section(word, body), ""]
    return "\n".join(result)


def _is_gap(lines):
    """Whether the first line is blank, and the next one belongs to the same section."""
    return not lines[0].strip() and len(lines) > 1 and lines[1].startswith(" ")


def _section(word, body):
    """The lines of one section."""
    if word != "Raises":
        # An empty type before the colon: the type is the annotation, and colons in the text stay.
        return [f"{word}:", *_indented(f": {body}")]
    items = NEXT_EXCEPTION.split(body.replace("\n", " "))
    matches = [EXCEPTION.fullmatch(item.strip()) for item in items]
    if not all(matches):
        return [f"**Raises:** {body}"]
    return ["Raises:", *(f"    {match[1]}: {match[2]}" for match in matches)]


def _indented(text):
    return [f"    {line}" for line in text.splitlines()]


class Docstrings(griffe.Extension):
    """Rewrites what griffe reads."""

    def on_instance(self, *, obj, **kwargs):
        """Called by griffe for each module, class, function and attribute."""
        if obj.docstring:
            obj.docstring.value = sections(obj.docstring.value)

    def on_attribute_instance(self, *, attr, **kwargs):
        """Called by griffe for each attribute."""
        value = attr.value
        if isinstance(value, griffe.ExprCall) and str(value.function) == "setting":
            attr.value = value.arguments[0]  # the default
            settings = getattr(importlib.import_module(attr.module.path), attr.parent.name)
            (field,) = (f for f in dataclasses.fields(settings) if f.name == attr.name)
            attr.docstring = griffe.Docstring(field.metadata["meaning"], parent=attr)
