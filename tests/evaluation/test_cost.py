from fedrel.evaluation.cost import to_reach, upload_per_platform


def line(number, score, up=10, down=100, cohort=("a", "b")):
    return {"round": number, "dev": {"ap": score, "auc": 0.0}, "bytes": {"up": up, "down": down}, "cohort": [*cohort]}


ROUNDS = [line(1, 0.2), line(2, 0.7, up=30), line(3, 0.6), line(4, 0.9, down=5)]


def test_the_first_round_that_reaches_the_target_counts_with_all_before_it():
    assert to_reach(ROUNDS, "ap", 0.7) == {"round": 2, "bytes_up": 40, "bytes_down": 200}
    assert to_reach(ROUNDS, "ap", 0.71) == {"round": 4, "bytes_up": 60, "bytes_down": 305}
    assert to_reach(ROUNDS, "ap", 0.0) == {"round": 1, "bytes_up": 10, "bytes_down": 100}


def test_a_target_that_is_never_reached():
    assert to_reach(ROUNDS, "ap", 0.91) is None
    assert to_reach(ROUNDS, "auc", 0.1) is None
    assert to_reach([], "ap", 0.0) is None


def test_upload_of_one_platform_in_one_round():
    assert upload_per_platform(ROUNDS) == 60 / 8
    # Platforms count, not rounds: three sent 10 bytes each, one sent 50.
    assert upload_per_platform([line(1, 0, up=30, cohort="abc"), line(2, 0, up=50, cohort="a")]) == 20
    assert upload_per_platform([line(1, 0, up=0, cohort="")]) == upload_per_platform([]) == 0.0
