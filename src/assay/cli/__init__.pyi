from collections.abc import Sequence

from assay.cli.options import PAGES as PAGES
from assay.cli.options import JudgingOptions as JudgingOptions
from assay.cli.options import RubricArgument as RubricArgument
from assay.cli.options import count as count
from assay.cli.options import declare as declare
from assay.cli.options import number as number
from assay.cli.options import positive as positive
from assay.cli.options import value_of as value_of
from assay.cli.runner import Conditions as Conditions
from assay.cli.runner import RowPrinter as RowPrinter
from assay.cli.runner import Runner as Runner
from assay.cli.runner import Work as Work
from assay.cli.runner import code_for as code_for
from assay.cli.runner import kept_answers as kept_answers
from assay.cli.runner import low_rows as low_rows
from assay.cli.runner import run_work as run_work
from assay.cli.runner import saved_format as saved_format
from assay.cli.runner import say as say
from assay.cli.runner import say_budget as say_budget
from assay.cli.runner import shown_progress as shown_progress
from assay.cli.sources import COMPLETION as COMPLETION
from assay.cli.sources import LOCAL as LOCAL
from assay.cli.sources import grader_of as grader_of
from assay.cli.sources import has_own_grader as has_own_grader
from assay.cli.sources import judge_of as judge_of
from assay.cli.sources import judging_with as judging_with
from assay.cli.sources import opened_cache as opened_cache
from assay.cli.sources import rubric_of as rubric_of
from assay.cli.sources import see_to_engine as see_to_engine
from assay.cli.sources import texts_of as texts_of
from assay.models import Ledger as Ledger

def main(arguments: Sequence[str] | None = None) -> int: ...
