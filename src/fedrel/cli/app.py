"""The command line: all commands of `fedrel`."""

from __future__ import annotations

import typer

from fedrel.cli import (
    audit,
    check_plugin,
    compare,
    data,
    estimate,
    explore,
    export,
    extract,
    federation,
    improve,
    label,
    ledger,
    methods,
    nvflare,
    partition,
    privacy,
    review,
    run,
    show,
    submitting,
    tune,
    verdicts,
    watch,
)
from fedrel.cli.frame import guarded
from fedrel.cli.help import shown_as_written
from fedrel.cli.node_app import coordinator_app, platform_app
from fedrel.version import installed_version

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Train a relation extractor across organisations without sharing their text.",
)
data_app = typer.Typer(no_args_is_help=True, help="Create, check or partition data sets.")
app.add_typer(data_app, name="data")
federation_app = typer.Typer(no_args_is_help=True, help="Certificates and kits for a federation of organisations.")
app.add_typer(federation_app, name="federation")
app.add_typer(coordinator_app, name="coordinator")
app.add_typer(platform_app, name="platform")
feedback_app = typer.Typer(no_args_is_help=True, help="Users' verdicts on predictions.")
app.add_typer(feedback_app, name="feedback")
nvflare_app = typer.Typer(no_args_is_help=True, help="Prepare a FLARE federation to carry fedrel's messages.")
app.add_typer(nvflare_app, name="nvflare")
ledger_app = typer.Typer(no_args_is_help=True, help="What a platform has sent.")
app.add_typer(ledger_app, name="ledger")


for command in (run.run, compare.compare, tune.tune, show.show, methods.methods, label.label, extract.extract):
    app.command(command.__name__)(guarded(command))
app.command("export")(guarded(export.export))
app.command("improve")(guarded(improve.improve))
app.command("review")(guarded(review.review))
app.command("explore")(guarded(explore.explore))
app.command("watch")(guarded(watch.watch))
app.command("check-plugin")(guarded(check_plugin.check_plugin))
for subcommand in (data.world, data.example, data.check, partition.partition):
    data_app.command(subcommand.__name__)(guarded(subcommand))
for provision in (
    federation.new,
    federation.add,
    federation.revoke,
    federation.renew,
    federation.show,
    federation.backup,
    federation.restore,
):
    federation_app.command(provision.__name__)(guarded(provision))
for admin_command in (submitting.submit, submitting.status, submitting.stop):
    app.command(admin_command.__name__)(guarded(admin_command))
feedback_app.command("agreement")(guarded(verdicts.agreement))
feedback_app.command("estimate")(guarded(estimate.estimate))
feedback_app.command("export")(guarded(verdicts.export))
feedback_app.command("import")(guarded(verdicts.import_))
feedback_app.command("judged")(guarded(verdicts.judged))
feedback_app.command("show")(guarded(verdicts.show))
for relaying in (nvflare.job, nvflare.site):
    nvflare_app.command(relaying.__name__)(guarded(relaying))
ledger_app.command("show")(guarded(ledger.show))
audit_app = typer.Typer(no_args_is_help=True, help="A node's audit trail: connections, commands, refusals.")
app.add_typer(audit_app, name="audit")
audit_app.command("show")(guarded(audit.show))


privacy_app = typer.Typer(no_args_is_help=True, help="What a run gives away.")
app.add_typer(privacy_app, name="privacy")
for looking in (privacy.audit, privacy.explain):
    privacy_app.command(looking.__name__)(guarded(looking))


@audit_app.callback()
def _keep_the_group() -> None:
    """Without a callback, typer would turn a group with a single command into that command."""


@app.callback(invoke_without_command=True)
def _top(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if version:
        print(installed_version())
        raise typer.Exit


shown_as_written(app)


def main() -> None:
    app()
