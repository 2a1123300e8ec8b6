from assay.probe.attacks import Attack as Attack
from assay.probe.attacks import attacks_of as attacks_of
from assay.probe.trials import Bare as Bare
from assay.probe.trials import ProbeReport as ProbeReport
from assay.probe.trials import Rate as Rate
from assay.probe.trials import probe as probe
