from assay.math.verdict import MathOptions as MathOptions
from assay.math.verdict import MathVerdict as MathVerdict
from assay.math.verdict import Status as Status
from assay.math.verdict import Tier as Tier
from assay.math.verification import verify as verify
from assay.math.verification import verify_async as verify_async
from assay.math.verification import verify_many as verify_many
from assay.math.verification import verify_many_async as verify_many_async
