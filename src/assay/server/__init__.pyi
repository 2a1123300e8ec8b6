from assay.server.app import RewardApp as RewardApp
from assay.server.remote import RemoteRubric as RemoteRubric
from assay.server.remote import ServerRefused as ServerRefused
from assay.server.reward_server import RewardServer as RewardServer
from assay.server.settings import Bounds as Bounds
from assay.server.settings import JudgeSettings as JudgeSettings
from assay.server.settings import Settings as Settings
from assay.server.supervisor import serve as serve
