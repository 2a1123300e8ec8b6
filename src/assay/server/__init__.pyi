from assay.server.app import RewardApp as RewardApp
from assay.server.client import RemoteRubric as RemoteRubric
from assay.server.refusals import ServerRefused as ServerRefused
from assay.server.settings import Bounds as Bounds
from assay.server.settings import Judge as Judge
from assay.server.settings import Settings as Settings
from assay.server.supervisor import serve as serve
from assay.server.thread import RewardServer as RewardServer
