"""`fedrel check-plugin`: whether a method, extractor, denoiser or format keeps to the rules."""

import json
from pathlib import Path
from typing import Annotated

import typer

from fedrel.cli.console import print_json, say, tell
from fedrel.util.escaping import shown


def check_plugin(
    name: Annotated[str, typer.Argument(help="Of a method, extractor, denoiser or format; fedrel's own work too.")],
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting that the part needs, such as training.lr=0.1."),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Of a format: a folder with an example.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Check a plug-in: every rule that fedrel's own parts are tested by, in a minute or two."""
    from fedrel.conformance import GROUPS, checks_of, find  # torch takes seconds to import: only who needs it waits
    from fedrel.conformance.runs import Runs, Unchecked
    from fedrel.errors import UserError

    kind = find(name)
    origin = GROUPS[kind].origin(name)
    say(f"checking the {kind} {name} of {origin or 'fedrel'} …")
    key = {"method": "method.name", "denoiser": "method.name", "extractor": "extractor.kind", "format": ""}[kind]
    settings = [*([f"{key}={name}"] if key else []), *(["method.name=fedavg"] if kind == "extractor" else [])]
    rules: list[dict[str, str]] = []

    def note(mark: str, what: str, why: str = "") -> None:
        rules.append({"rule": what, "state": {"✓": "kept", "✗": "broken", "-": "not checked"}[mark], "why": why})
        if not json_:
            tell(f"{mark} {what}")
            if why:
                tell(f"  {shown(why)}")

    with Runs.of([*settings, *(set_ or [])]) as runs:
        if key:
            runs.setup()  # settings that do not fit are the user's to mend, not the part's
        for check in checks_of(kind, name, runs, data):
            try:
                check.test()
            except Unchecked as error:
                note("-", check.what, str(error))
            except Exception as error:  # somebody else's code: whatever it raises breaks the rule
                if isinstance(error, UserError) and not key:
                    raise  # the example of a format is the user's to mend
                note("✗", check.what, str(error) or type(error).__name__)
            else:
                note("✓", check.what)
    failed = sum(it["state"] == "broken" for it in rules)
    if json_:
        print_json(json.dumps({"name": name, "kind": kind, "digest": origin and origin.digest, "rules": rules}))
        raise typer.Exit(1 if failed else 0)
    if origin is not None:
        tell(f'to allow it on a platform, in policy.toml: [plugins] allow = ["{name} sha256:{origin.digest}"]')
    if failed:
        tell("1 rule is broken" if failed == 1 else f"{failed} rules are broken")
        raise typer.Exit(1)
    tell(f"it keeps to all rules; use it with: fedrel run --set {key or 'data.source'}={name}")
