"""Owns the way from proto/ to agentctl/v1/: messages, stubs for type checkers and one import surface.

`python tools/gen_proto.py` writes; `--check` says which files are not current and ends with 1.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"
PACKAGE = Path("agentctl/v1")
FENCE = "# Generated from proto/ by tools/gen_proto.py. Do not edit: edit the .proto and run `make proto`.\n"


def generate(target: Path) -> dict[Path, str]:
    """Returns what agentctl/v1 must hold, by path relative to the repository."""
    sources = sorted(PROTO.rglob("*.proto"))
    command = [
        sys.executable,
        "-m",
        "grpc_tools.protoc",
        f"--proto_path={PROTO}",
        f"--python_out={target}",
        f"--grpc_python_out={target}",
        f"--mypy_out=quiet:{target}",
        f"--mypy_grpc_out=quiet:{target}",
        *(str(path) for path in sources),
    ]
    plugins = Path(sys.executable).parent
    subprocess.run(command, check=True, env={"PATH": f"{plugins}:/usr/bin:/bin"})
    files = {
        path.relative_to(target): FENCE + path.read_text(encoding="utf-8")
        for path in sorted((target / PACKAGE).iterdir())
        if "_grpc" not in path.name or "\nservice " in _source(path)
    }
    files[PACKAGE / "__init__.py"] = FENCE + surface(target, sources)
    return files


def _source(generated: Path) -> str:
    stem = generated.name.split("_pb2")[0]
    return (PROTO / PACKAGE / f"{stem}.proto").read_text(encoding="utf-8")


def surface(target: Path, sources: list[Path]) -> str:
    """Returns an __init__ that offers every message and enum under `agentctl.v1`."""
    from google.protobuf import descriptor_pb2

    wanted = target / "all.binpb"
    command = [sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={PROTO}"]
    subprocess.run(
        [*command, f"--descriptor_set_out={wanted}", *(str(path) for path in sources)], check=True
    )
    files = descriptor_pb2.FileDescriptorSet.FromString(wanted.read_bytes()).file
    lines = ['"""Owns the messages of the API, package agentctl.v1, under one name."""\n\n']
    names: list[str] = []
    for file in sorted(files, key=lambda each: each.name):
        module = file.name.removeprefix("agentctl/v1/").removesuffix(".proto") + "_pb2"
        here = sorted(each.name for each in (*file.message_type, *file.enum_type))
        if here:
            body = "".join(f"    {name},\n" for name in here)
            lines.append(f"from agentctl.v1.{module} import (\n{body})\n")
            names.extend(here)
    exported = "".join(f'    "{name}",\n' for name in sorted(names))
    return "".join(lines) + f"\n__all__ = [\n{exported}]\n"


def stale(files: dict[Path, str]) -> list[str]:
    """Returns the paths that differ from `files`, are missing or are left over."""
    present = {
        path.relative_to(ROOT)
        for path in (ROOT / PACKAGE).iterdir()
        if path.suffix in {".py", ".pyi"}
    }
    differing = {
        path
        for path, text in files.items()
        if path not in present or (ROOT / path).read_text(encoding="utf-8") != text
    }
    return sorted(str(path) for path in differing | (present - files.keys()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing, say what is stale")
    check = parser.parse_args().check
    with tempfile.TemporaryDirectory() as directory:
        files = generate(Path(directory))
    old = stale(files)
    if check:
        for path in old:
            print(f"not current: {path} (run `make proto`)", file=sys.stderr)  # noqa: T201  a tool talks to its user
        return 1 if old else 0
    for name in old:
        path = ROOT / name
        if Path(name) in files:
            path.write_text(files[Path(name)], encoding="utf-8")
        else:
            path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
