"""Tries mutations and prints a table of them; see the package's docstring."""

import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.mutations import MUTATIONS
from tests.mutations.mutation import Copy


def main(wanted: str = "") -> int:
    """Tries the mutations with `wanted` in their description, prints a table, and returns how many went unnoticed.

    Raises SystemExit if their tests fail without any mutation.
    """
    chosen = [mutation for mutation in MUTATIONS if wanted.lower() in mutation.what.lower()]
    console, table, unnoticed = Console(), Table("mutation", "test", "noticed"), 0
    with tempfile.TemporaryDirectory() as folder, console.status("the tests without a mutation") as status:
        copy = Copy(Path(folder))
        if not copy.passes(mutation.test for mutation in chosen):
            raise SystemExit("the tests fail without any mutation")
        for mutation in chosen:
            status.update(mutation.what)
            noticed = copy.notices(mutation)
            unnoticed += not noticed
            table.add_row(mutation.what, mutation.test, "yes" if noticed else "[bold red]no")
    console.print(table)
    return unnoticed


if __name__ == "__main__":
    sys.exit(bool(main(*sys.argv[1:2])))
