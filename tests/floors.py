#!/usr/bin/env python3
"""Holds src/ against the order that its parts stand in, and against a few words that it must not contain.

The floors are read from the documentation of src/lib.rs, so the text and the check cannot part. A file may name a module
(`crate::module`) that stands on a floor below its own, or its own module. What is named beside itself, on the same floor,
is listed in BESIDE, and the list must have no circle.

Nothing but Python's own library; run from anywhere. Exits with 1 and a line for each breach.
"""

import re
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src"

# (who, whom): neighbours on one floor that one of the two stands on.
BESIDE = {
    ("gateway", "bundle"),  # The gateway mounts gated tools in its own process.
    ("text", "secret"),  # Shown text that stands for a long value carries that value's digest.
    ("world", "time"),  # The world holds the clock.
}

# Only in tests: modules of tests that another module's tests use.
BESIDE_IN_TESTS = {
    ("text", "json"),  # The hand-rolled generator of arbitrary values.
}

# What may not stand in code outside tests, and why.
WORDS = [
    (re.compile(r"\bserde_json::from_(?:str|slice|reader)::<\s*(?:serde_json::)?Value\b"),
     "Value opens hidden documents and keeps the last of two equal names: json::scan, Members or Exact"),
    (re.compile(r":\s*(?:serde_json::)?Value\s*=\s*serde_json::from_"),
     "Value opens hidden documents and keeps the last of two equal names: json::scan, Members or Exact"),
    (re.compile(r"\.unwrap\(\)"), "what came from outside is never unwrapped"),
    (re.compile(r"\bunsafe\b"), "no unsafe code"),
]


def code_of(text):
    """The text with comments and string literals blanked, line for line."""
    pattern = re.compile(
        r"""//[^\n]*                         # a comment
          | /\*.*?\*/                        # a block comment
          | b?r(?P<hashes>\#*)".*?"(?P=hashes)   # a raw string
          | b?"(?:\\.|[^"\\])*"              # a string
          | b?'(?:\\(?:.|x[0-9a-fA-F]{2}|u\{[0-9a-fA-F]+\})|[^'\\\n])'  # a character
        """,
        re.VERBOSE | re.DOTALL,
    )

    def blank(match):
        found = match.group()
        kept = '""' if found.lstrip("br#").startswith('"') else ""
        return kept + "\n" * found.count("\n")

    return pattern.sub(blank, text)


def without_tests(code):
    """The code with every item behind `#[cfg(test)]` blanked, line for line. Comments and strings must be gone."""
    mark = "#[cfg(test)]"
    start = code.find(mark)
    while start >= 0:
        depth = 0
        end = start + len(mark)
        while end < len(code):
            letter = code[end]
            depth += letter in "{[("
            depth -= letter in "}])"
            end += 1
            # An item ends with its own brace or semicolon; the bracket that closes another attribute ends nothing.
            if depth == 0 and letter in "};":
                break
        code = code[:start] + "\n" * code.count("\n", start, end) + code[end:]
        start = code.find(mark, start)
    return code


def test_only(path):
    """Whether a file is a module of tests: one that is declared behind `#[cfg(test)]`, or lies under such a one."""
    here = path
    while here != SOURCE:
        parent = here.parent
        name = here.stem if here.is_file() else here.name
        if name == "mod":
            here = parent
            continue
        owners = [parent / "mod.rs", parent.with_suffix(".rs"), SOURCE / "lib.rs"]
        owner = next((owner for owner in owners if owner.is_file() and owner != path), None)
        if owner and re.search(rf"#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([a-z: ]+\))?\s+)?mod {name};", owner.read_text()):
            return True
        here = parent
    return False


def floors():
    """The floor of each module, as the crate's documentation draws them."""
    text = (SOURCE / "lib.rs").read_text()
    modules = set(re.findall(r"^(?:pub )?mod (\w+);", text, re.MULTILINE))
    found = {}
    for number, rest in re.findall(r"^//! (\d+)  (.+)$", text, re.MULTILINE):
        for name in re.split(r"\s{2,}", rest.strip()):
            if name in modules:
                found[name] = int(number)
    return modules, found


def named(code):
    """Each module that `crate::` names, with its line. A visibility, `pub(in crate::x)`, imports nothing."""
    code = re.sub(r"pub\(in crate(?:::\w+)*\)", lambda match: "pub", code)
    for match in re.finditer(r"\bcrate::(\{|\*|\w+)", code):
        yield match.group(1), code.count("\n", 0, match.start()) + 1


def main():
    breaches = []
    modules, floor = floors()
    for name in sorted(modules - floor.keys()):
        breaches.append(f"src/lib.rs: the documentation draws no floor for {name}")
    if len(set(floor.values())) < 2:
        breaches.append("src/lib.rs: no drawing of the floors was found")
    used = set()
    files = 0
    for path in sorted(SOURCE.rglob("*.rs")):
        inside = path.relative_to(SOURCE)
        owner = inside.parts[0].removesuffix(".rs")
        if owner in ("lib", "main"):
            continue
        files += 1
        if owner not in floor:
            breaches.append(f"src/{inside}: belongs to no module of src/lib.rs")
            continue
        code = code_of(path.read_text())
        plain = "" if test_only(path) else without_tests(code)
        plain_names = set(named(plain))
        for name, line in named(code):
            place = f"src/{inside}:{line}"
            in_tests = (name, line) not in plain_names
            if name in ("{", "*"):
                breaches.append(f"{place}: `crate::{name}` hides the floors: one `use` for each module")
            elif name == owner or name not in modules:
                continue
            elif floor.get(name, 0) > floor[owner]:
                breaches.append(f"{place}: {owner} (floor {floor[owner]}) names {name} (floor {floor[name]}) above it")
            elif floor.get(name) == floor[owner]:
                edge = (owner, name)
                used.add(edge)
                if edge not in BESIDE and not (in_tests and edge in BESIDE_IN_TESTS):
                    breaches.append(f"{place}: {owner} names {name} on its own floor, {floor[owner]}")
        for number, line in enumerate(plain.split("\n"), 1):
            for word, why in WORDS:
                if word.search(line):
                    breaches.append(f"src/{inside}:{number}: {word.search(line).group()}: {why}")
    for edge in sorted((BESIDE | BESIDE_IN_TESTS) - used):
        breaches.append(f"tests/floors.py: {edge[0]} no longer names {edge[1]}: take it off the list")
    for start in sorted({who for who, _ in BESIDE}):
        reached, open_ends = set(), {start}
        while open_ends:
            reached |= open_ends
            open_ends = {whom for who, whom in BESIDE if who in open_ends} - reached
            if any((who, start) in BESIDE for who in reached):
                breaches.append(f"tests/floors.py: BESIDE has a circle through {start}")
                break
    if files == 0:
        breaches.append("src/: no file was looked at")
    for breach in breaches:
        print(breach)
    if breaches:
        return 1
    print(f"{files} files on {len(set(floor.values()))} floors, none names what stands above it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
