#!/usr/bin/env python3
"""Audits the dependency trees of the crate and of fuzz/, from their lock files and cargo's metadata alone: no network.

Fails on a crate that tests/dependencies.txt does not list, on a listed one that is gone, on a licence that changed or is
not among LICENCES, on two versions of one crate in the main tree, on a crate from anywhere but the registry, on the
held crates (HELD) at another version, and on fuzz/ not building the versions that the main tree builds.

    tests/dependencies.py             the audit
    tests/dependencies.py --missing   prints lines to complete, for what the list lacks

After a change of dependencies, fuzz/Cargo.lock is made of ours, so that what is fuzzed is what ships:

    cp Cargo.lock fuzz/Cargo.lock && cargo metadata --format-version 1 --manifest-path fuzz/Cargo.toml > /dev/null

Nothing but Python's own library and cargo; run from anywhere. Exits with 1 and a line for each finding.
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "dependencies.txt"

# What the tree is looked at for: what only other systems compile is not part of it.
TARGETS = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "x86_64-unknown-linux-musl"]

# Licences under which a crate may be linked into a binary that is MIT or Apache-2.0. Of `A OR B`, one suffices.
LICENCES = {
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-3-Clause",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
}

# In fuzz/ only; nothing of it ships.
LICENCES_OF_FUZZ = LICENCES | {"NCSA"}

# Crates that the lock files hold back, and why. Cargo.toml must not pin them: that would bind those who embed us.
HELD = {
    "idna_adapter": ("1.0.0", "1.0.0 has ASCII-only names and no ICU tables: what is checked is what is connected to"),
}


def cargo_metadata(folder):
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--all-features"]
    for target in TARGETS:
        command += ["--filter-platform", target]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{folder.relative_to(ROOT) if folder != ROOT else '.'}: cargo metadata failed:\n{done.stderr}")
    return json.loads(done.stdout)


def is_allowed(expression, allowed):
    """Whether an SPDX expression can be met with `allowed`. The old `A/B` means `A OR B`."""
    words = re.findall(r"[()]|[^\s()]+", expression.replace("/", " OR "))
    at = 0

    def primary():
        nonlocal at
        if at >= len(words):
            raise ValueError(expression)
        word = words[at]
        at += 1
        if word == "(":
            met = alternatives()
            if at >= len(words) or words[at] != ")":
                raise ValueError(expression)
            at += 1
            return met
        if at + 1 < len(words) and words[at] == "WITH":
            word = f"{word} WITH {words[at + 1]}"
            at += 2
        return word in allowed

    def all_of():
        nonlocal at
        met = primary()
        while at < len(words) and words[at] == "AND":
            at += 1
            met = primary() and met
        return met

    def alternatives():
        nonlocal at
        met = all_of()
        while at < len(words) and words[at] == "OR":
            at += 1
            met = all_of() or met
        return met

    met = alternatives()
    if at != len(words):
        raise ValueError(expression)
    return met


def listed():
    """The committed list: name -> (licence, where, why)."""
    found = {}
    for number, line in enumerate(LIST.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = [part.strip() for part in line.split("|")]
        if len(parts) != 4 or not all(parts) or parts[1] not in ("main", "fuzz"):
            sys.exit(f"tests/dependencies.txt:{number}: not `name | main or fuzz | licence | why`")
        if parts[0] in found:
            sys.exit(f"tests/dependencies.txt:{number}: {parts[0]} is listed twice")
        found[parts[0]] = tuple(parts[1:])
    return found


def outside(metadata):
    """The packages that are not ours: those with a source, and those whose path lies outside this repository."""
    return [
        package
        for package in metadata["packages"]
        if package["source"] or ROOT not in Path(package["manifest_path"]).parents
    ]


def locked(lock_file):
    """name -> versions, for every package of a lock file whatever system it is for."""
    found = {}
    for package in tomllib.loads(lock_file.read_text())["package"]:
        found.setdefault(package["name"], {})[package["version"]] = package.get("source")
    return found


def main():
    findings = []
    main_tree = outside(cargo_metadata(ROOT))
    fuzz = outside(cargo_metadata(ROOT / "fuzz"))
    if not main_tree or not fuzz:
        findings.append("cargo names no dependency: nothing was audited")
    main_names = {package["name"] for package in main_tree}
    tree = {package["name"]: ("main", package["license"] or "none named") for package in main_tree}
    for package in fuzz:
        tree.setdefault(package["name"], ("fuzz", package["license"] or "none named"))

    known = listed()
    missing = sorted(tree.keys() - known.keys())
    if "--missing" in sys.argv[1:]:
        for name in missing:
            print(f"{name} | {tree[name][0]} | {tree[name][1]} | ")
        return 0
    for name in missing:
        findings.append(f"{name} ({tree[name][0]}, {tree[name][1]}) is not in tests/dependencies.txt")
    for name in sorted(known.keys() - tree.keys()):
        findings.append(f"{name} is in tests/dependencies.txt and no longer in the tree: take it off")
    for name in sorted(known.keys() & tree.keys()):
        where, licence, _ = known[name]
        if where != tree[name][0]:
            findings.append(f"{name}: listed as {where!r}, found as {tree[name][0]!r}")
        if licence != tree[name][1]:
            findings.append(f"{name}: listed under {licence!r}, and now under {tree[name][1]!r}")

    for name, (where, licence) in sorted(tree.items()):
        allowed = LICENCES if where == "main" else LICENCES_OF_FUZZ
        try:
            if not is_allowed(licence, allowed):
                findings.append(f"{name}: licence {licence!r} is not allowed")
        except ValueError:
            findings.append(f"{name}: licence {licence!r} cannot be read")

    versions = {}
    for package in main_tree:
        versions.setdefault(package["name"], set()).add(package["version"])
    for name, found in sorted(versions.items()):
        if len(found) > 1:
            findings.append(f"{name}: in the tree as {' and '.join(sorted(found))}")

    locks = {folder: locked(ROOT / folder / "Cargo.lock") for folder in (".", "fuzz")}
    for folder, packages in locks.items():
        where = "Cargo.lock" if folder == "." else f"{folder}/Cargo.lock"
        for name, by_version in sorted(packages.items()):
            for version, source in by_version.items():
                ours = name in ("countersign", "countersign-fuzz")
                if ours != (source is None) or (source or "registry+").partition("+")[0] not in ("registry", "sparse"):
                    findings.append(f"{where}: {name} {version} does not come from the registry")
        for name, (version, why) in HELD.items():
            if set(packages.get(name, {version: None})) != {version}:
                findings.append(f"{where}: {name} must stay at {version}: {why}")
    for name in HELD:
        if name not in locks["."]:
            findings.append(f"Cargo.lock: {name} is held, and is not there: drop it from HELD if it is not needed")
    for name in sorted(main_names):
        lacking = locks["."][name].keys() - locks["fuzz"].get(name, {}).keys()
        if lacking:
            findings.append(f"fuzz/Cargo.lock: lacks {name} {' and '.join(sorted(lacking))} of the main tree")

    for finding in findings:
        print(finding)
    if findings:
        return 1
    only = len(tree) - len(main_names)
    print(f"{len(main_names)} crates in the main tree, {only} more for fuzzing; each is listed, under a licence that is allowed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
