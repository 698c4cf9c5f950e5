"""Mistakes in the checks on replies, requests, files and keys."""

from tests.mutations.mutation import Mutation

_BAGS = "tests/denoisers/test_denoisers.py::"
_REMOTE = "tests/engines/test_remote.py::"
_SCREEN = "tests/engines/test_screening.py::"
_FORM = _REMOTE + "test_a_reply_of_another_form_is_refused_and_counts_for_nothing"

CHECKS = [
    Mutation(
        "the check against an inflated weight ignores the field that mean(by=…) names",
        "engines/remote.py",
        "claims(form, reply).items()",
        '{"sentences": reply.get("sentences", 0.0)}.items()',
        _REMOTE + "test_nor_a_weight_beyond_them_whatever_its_field_is_called",
    ),
    Mutation(
        "a weight is no claim",
        "protocol/replies.py",
        "form.of_kind(*WEIGHTS) if form else []",
        'form.of_kind("sentences") if form else []',
        _REMOTE + "test_nor_a_weight_beyond_them_whatever_its_field_is_called",
    ),
    Mutation(
        "mean(by=…) may name a field that nobody checks",
        "protocol/site.py",
        "by not in self.weighable",
        "False",
        "tests/protocol/test_replies.py::test_a_mean_is_weighted_by_declared_fields_alone",
    ),
    Mutation(
        "the server of a run is not told which fields are checked",
        "experiment",
        "weighable=weighable(algorithm)",
        "weighable=None",
        _REMOTE + "test_the_server_of_a_run_weighs_by_checked_fields_alone",
    ),
    Mutation(
        "screening ignores the field that mean(by=…) names",
        "engines/screening.py",
        "max(claims(form, reply).values(), default=0.0)",
        'reply.get("sentences", 0.0)',
        _SCREEN + "test_a_claim_is_whatever_a_mean_may_be_weighted_by",
    ),
    Mutation(
        "a round goes on with too few replies",
        "engines/remote.py",
        "min(self.minimum, len(ask.to))",
        "min(1, len(ask.to))",
        _REMOTE + "test_a_round_needs_the_minimum_of_replies_and_refused_ones_do_not_count",
    ),
    Mutation(
        "a reply may hold more than its task declares",
        "protocol/replies.py",
        "sorted(found.difference(expected))",
        "()",
        _FORM,
    ),
    Mutation(
        "a reply may hold NaN",
        "protocol/replies.py",
        "not _is_finite(found)",
        "False",
        _REMOTE + "test_an_array_without_a_kind_is_finite",
    ),
    Mutation("a model may be anywhere", "protocol/replies.py", "not moved <= most", "False", _FORM),
    Mutation("a reply may have any size", "engines/remote.py", "len(payload) > most", "False", _FORM),
    Mutation(
        "screening accepts updates ten times as long as it should",
        "engines/screening.py",
        "times > limit",
        "times > 10 * limit",
        _SCREEN + "test_who_sends_ten_times_the_median_at_first_is_left_out_and_named",
    ),
    Mutation(
        "a platform may count for any multiple of the median",
        "engines/screening.py",
        "min(claimed, self._most())",
        "claimed",
        _SCREEN + "test_who_announces_a_billion_counts_for_ten_times_the_median",
    ),
    Mutation(
        "updates against the others' direction are accepted",
        "engines/screening.py",
        "cosine < _AGAINST * usual",
        "False",
        _SCREEN + "test_who_points_against_the_others_in_the_first_rounds_is_left_out",
    ),
    Mutation(
        "evidence is believed however certain it is",
        "engines/screening.py",
        "lead > _LEAD",
        "False",
        _SCREEN + "test_who_says_that_all_of_its_facts_are_certain_is_not_believed",
    ),
    Mutation(
        "a checkpoint's digest is not compared",
        "protocol/codec.py",
        "payload[_DIGITS] != _digest(payload)",
        "False",
        "tests/protocol/test_checkpoint.py::test_every_place_is_covered",
    ),
    Mutation(
        "a platform's keys of facts are the same in every round",
        "experiment",
        "of_round(self.secret, notes.round) if self.fresh else self.secret",
        "self.secret",
        "tests/privacy/test_fact_keys.py",
    ),
    Mutation(
        "the key of a round does not depend on the round",
        "privacy/blind.py",
        'f"round {round_}"',
        '"round"',
        "tests/privacy/test_fact_keys.py",
    ),
    Mutation(
        "a signed request may be sent twice",
        "federation/worker.py",
        "now <= json.loads",
        "now < json.loads",
        "tests/federation/test_gate.py::test_a_request_counts_once",
    ),
    Mutation(
        "a request's payload may be another than was signed",
        "federation/worker.py",
        "sha256(content) != request.sha256",
        "False",
        "tests/federation/test_gate.py::test_anything_else_gets_no_answer_and_a_line_in_the_ledger",
    ),
    Mutation(
        "anybody in the federation may sign as anybody",
        "federation/signing.py",
        "owner_role != role or (name is not None and owner != name)",
        "False",
        "tests/federation/test_signing.py::test_no_other_party_can_sign_for_the_coordinator",
    ),
    Mutation(
        "ATT's queries take the place of the classifier's rows at test alone",
        "denoisers/attention.py",
        "(self.diagonal * self.queries(classifier))[labels]",
        "self.diagonal.expand_as(classifier.weight)[labels]",
        _BAGS + "test_attention_as_published_by_hand",
    ),
    Mutation(
        "a mean over sentences is a maximum",
        "denoisers/base.py",
        "log_odds(classifier(group_mean(vectors, bag, bags)))",
        "best_sentence_score(vectors, bag, bags, classifier)",
        _BAGS + "test_a_mean_and_a_maximum_of_two_sentences_by_hand",
    ),
    Mutation(
        "a verdict needs no test over items where there are few seeds",
        "sweeps/verdict.py",
        "not (clear and p_items is not None and p_items < CHANCE)",
        "not clear",
        "tests/sweeps/test_verdict.py::test_the_rule",
    ),
    Mutation(
        "dev's worst settings are chosen",
        "sweeps/choosing.py",
        "-means[it]",
        "means[it]",
        "tests/sweeps/test_choosing.py::test_dev_chooses_by_its_mean_over_all_runs",
    ),
    Mutation(
        "errors are over all runs where worlds vary",
        "sweeps/tables.py",
        'unit = c["seed"] if of_seeds else c["draw"]',
        'unit = c["seed"] if of_seeds else (c["draw"], c["seed"])',
        "tests/sweeps/test_variation.py::test_errors_are_over_worlds_and_seeds_are_averaged",
    ),
]
