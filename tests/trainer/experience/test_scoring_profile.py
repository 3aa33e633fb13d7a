"""Tables of scoring speeds in their files; `test_rank_prepare` has ranks that go by them."""

from dataclasses import replace

from earl_selector import ProfileGrid, ProfilePoint, ProfileSubject, ProfileTable
from earl_trainer.experience.scoring_profile import find_table

SUBJECT = ProfileSubject(model="tiny", device="cpu", engine="fake")


def test_a_table_is_measured_once_and_lies_in_its_file(tmp_path):
    path, runs = tmp_path / "prepare.json", []

    def find(subject=SUBJECT, degrees=(1, 2)):
        def measure():
            runs.append(subject)
            grid = ProfileGrid(degrees=degrees, num_responses=(4,), context_tokens=(8,))
            table = ProfileTable(subject=subject, grid=grid)
            for tp in degrees:
                point = ProfilePoint(
                    tp=tp, num_responses=4, context_tokens=8, tokens_per_s_per_device=200.0
                )
                table = table.add(point)
            return table

        return find_table(path, subject, degrees, measure)

    assert find() == find()
    assert len(runs) == 1
    find(subject=replace(SUBJECT, device="another"))
    find(degrees=(1,))
    assert len(runs) == 3
