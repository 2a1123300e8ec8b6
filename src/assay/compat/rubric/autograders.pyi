from assay.graders import Autograder as Autograder
from assay.graders import PerCriterionGrader as PerCriterionGrader
from assay.graders import PerCriterionOneShotGrader as PerCriterionOneShotGrader
from assay.graders import RubricAsJudgeGrader as RubricAsJudgeGrader
from assay.graders.verdicts import OneShotOutput as OneShotOutput
from assay.graders.verdicts import PerCriterionOutput as PerCriterionOutput
from assay.graders.verdicts import RubricAsJudgeOutput as RubricAsJudgeOutput
