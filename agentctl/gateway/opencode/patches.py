"""Owns the reading of a patch of git, file by file. Pure."""

from agentctl.gateway.opencode.words import Json


def split_patch(patch: str) -> list[Json]:
    """A patch of git, file by file."""
    out: list[Json] = []
    for piece in ("\n" + patch).split("\ndiff --git ")[1:]:
        lines = piece.splitlines()
        start = next((n for n, line in enumerate(lines) if line.startswith("@@")), len(lines))
        body = [line for line in lines[start:] if line[:1] in ("+", "-")]
        told = {line.partition(" ")[0] for line in lines[1:6]}
        status = "added" if "new" in told else "deleted" if "deleted" in told else "modified"
        out.append(
            {
                "file": lines[0].rpartition(" b/")[2],
                "patch": f"diff --git {piece.rstrip()}\n",
                "additions": sum(line[0] == "+" for line in body),
                "deletions": sum(line[0] == "-" for line in body),
                "status": status,
            }
        )
    return out
