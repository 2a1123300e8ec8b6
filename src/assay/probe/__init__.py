"""Attack a judge on responses that deserve to fail, and count how often they pass.

trials          baits, and what a judge says of them under attack; Bare, a judge without any hardening
attacks         the shipped attacks, and attacks of your own
probe_report    how often attacks succeeded, and what could not be tried

It needs the extra `trust`.
"""

from assay.probe.attacks import Attack as Attack
from assay.probe.attacks import attacks_of as attacks_of
from assay.probe.probe_report import ProbeReport as ProbeReport
from assay.probe.trials import Bare as Bare
from assay.probe.trials import probe as probe
