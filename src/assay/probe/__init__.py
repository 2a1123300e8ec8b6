"""Attack a judge on responses that deserve to fail, and count how often they pass.

trials      baits, what a judge says of them under attack, and how often attacks succeeded; Bare, an unhardened judge
attacks     the shipped attacks, and attacks of your own

It needs the extra `trust`.
"""

from assay.probe.attacks import Attack as Attack
from assay.probe.attacks import attacks_of as attacks_of
from assay.probe.trials import Bare as Bare
from assay.probe.trials import ProbeReport as ProbeReport
from assay.probe.trials import probe as probe
